"""Tokens of a statement with their offsets, and the cursor with which parsers read them.

All parsers of the grammar use it. The cursor's errors name the position and the expected text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NoReturn

from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from meltline.domain.errors import SqlUnreadable

_WORD = re.compile(r"\w+")
_PLACE = re.compile(r" from \d+:(\d+)")
_STRINGS = {
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.HEREDOC_STRING,
}


class Kind(Enum):
    """Kind of a token."""

    WORD = auto()
    QUOTED = auto()
    STRING = auto()
    NUMBER = auto()
    SYMBOL = auto()
    END = auto()


@dataclass(frozen=True)
class Token:
    """A token of a statement.

    Attributes:
        kind: Its kind.
        text: A word as written; the content of quotes, with escapes resolved.
        start: Offset of its begin in the statement; `end` is the offset after it.
    """

    kind: Kind
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether it is one of the given keywords, in any case and not in quotes."""
        return self.kind is Kind.WORD and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Whether it is exactly this symbol."""
        return self.kind is Kind.SYMBOL and self.text == symbol

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name."""
        return self.kind in (Kind.WORD, Kind.QUOTED)


class _Tokenizer(Spark.Tokenizer):
    """Spark's quoting and symbols without keywords: the meaning of a word depends on its position.

    Texts between dollars, `$$…$$` and `$tag$…$tag$`, are Postgres' own: Spark has none.
    """

    KEYWORDS = {  # noqa: RUF012 - sqlglot reads it once, when the class is made
        sign: kind
        for sign, kind in Spark.Tokenizer.KEYWORDS.items()
        if not any(letter.isalpha() for letter in sign)
    }
    COMMANDS = set()  # noqa: RUF012
    NUMERIC_LITERALS = {}  # noqa: RUF012
    HEREDOC_STRINGS = ["$"]  # noqa: RUF012
    HEREDOC_TAG_IS_IDENTIFIER = True
    HEREDOC_STRING_ALTERNATIVE = TokenType.PARAMETER


def tokens_of(text: str) -> tuple[Token, ...]:
    """Splits a statement into tokens without comments and spaces, with an END at the end.

    Raises:
        SqlUnreadable: A quote or a comment is not closed.
    """
    try:
        raw = _Tokenizer(dialect="spark").tokenize(text)
    except TokenError as error:
        message = str(error.__cause__ or error)
        match = _PLACE.search(message)
        # sqlglot's column is an offset in the whole text.
        place = min(int(match[1]), len(text)) if match else len(text)
        message = _PLACE.sub("", message) if match else "the end"
        raise unreadable(text, place, "quotes and comments that end", message.strip()) from error
    tokens = [
        Token(
            _kind(tok.token_type, text[tok.start : tok.end + 1]), tok.text, tok.start, tok.end + 1
        )
        for tok in raw
    ]
    return (*tokens, Token(Kind.END, "", len(text), len(text)))


def _kind(type: TokenType, raw: str) -> Kind:
    if type in _STRINGS:
        return Kind.STRING
    if type is TokenType.IDENTIFIER:
        return Kind.QUOTED
    if type is TokenType.NUMBER:
        return Kind.NUMBER
    return Kind.WORD if _WORD.fullmatch(raw) else Kind.SYMBOL


def unreadable(text: str, offset: int, expected: str, actual: str) -> SqlUnreadable:
    """Builds the error with its position in the statement."""
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
    place = f"line {line}, column {column}"
    return SqlUnreadable(
        f"the statement cannot be read at {place}: {expected} expected, {actual} found",
        object=place,
        expected=expected,
        found=actual,
        next="docs/sql.md lists the statements; all else is for Spark as it is written",
    )


class Cursor:
    """Reads tokens one after the other."""

    def __init__(self, text: str, tokens: Sequence[Token], at: int = 0) -> None:
        """Begins at a token."""
        self.text = text
        self.tokens = tokens
        self.at = at

    @property
    def current(self) -> Token:
        """The token that comes next."""
        return self.tokens[self.at]

    def ahead(self, steps: int) -> Token:
        """Returns a later token; END after the last one."""
        return self.tokens[min(self.at + steps, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Takes the next token."""
        token = self.current
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def take(self, *words: str) -> bool:
        """Takes these keywords if they all come next."""
        if not self.comes(*words):
            return False
        self.at += len(words)
        return True

    def comes(self, *words: str) -> bool:
        """Whether these keywords come next."""
        return all(self.ahead(n).is_word(word) for n, word in enumerate(words))

    @property
    def is_at_end(self) -> bool:
        """Whether no token is left."""
        return self.current.kind is Kind.END

    def take_symbol(self, symbol: str) -> bool:
        """Takes a symbol if it comes next."""
        if not self.current.is_symbol(symbol):
            return False
        self.next()
        return True

    def expect(self, *words: str) -> None:
        """Takes these keywords. Raises SqlUnreadable at any other token."""
        for word in words:
            if not self.take(word):
                self.fail(word)

    def expect_symbol(self, symbol: str) -> None:
        """Takes a symbol. Raises SqlUnreadable at any other token."""
        if not self.take_symbol(symbol):
            self.fail(f"`{symbol}`")

    def expect_end(self) -> None:
        """Takes an optional semicolon and the end. Raises SqlUnreadable if more follows."""
        while self.take_symbol(";"):
            continue
        if self.current.kind is not Kind.END:
            self.fail("the end of the statement")

    def choice(self, *words: str) -> str:
        """Takes any of the keywords and returns it. Raises SqlUnreadable."""
        for word in words:
            if self.take(word):
                return word
        self.fail(" or ".join(words))

    def name(self, expected: str = "a name") -> tuple[str, ...]:
        """Takes a dotted name. Raises SqlUnreadable."""
        parts: list[str] = []
        while True:
            if not self.current.is_name:
                self.fail(expected)
            parts.append(self.next().text)
            if not self.take_symbol("."):
                return tuple(parts)

    def string(self, expected: str) -> str:
        """Takes a quoted text; a doubled quote in it is one quote. Raises SqlUnreadable."""
        if self.current.kind is not Kind.STRING:
            self.fail(expected)
        token = self.next()
        text = token.text
        while self.current.kind is Kind.STRING and self.current.start == token.end:
            text += self.text[token.end] + self.current.text
            token = self.next()
        return text

    def whole(self, expected: str) -> int:
        """Takes a whole number. Raises SqlUnreadable."""
        if self.current.kind is not Kind.NUMBER or not self.current.text.isdecimal():
            self.fail(expected)
        return int(self.next().text)

    def fail(self, expected: str) -> NoReturn:
        """Raises SqlUnreadable with the expected text at the current token."""
        token = self.current
        actual = self.text[token.start : token.end]
        word = f"{actual!r}" if actual else "the end"
        raise unreadable(self.text, token.start, expected, word)
