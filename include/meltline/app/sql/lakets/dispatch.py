"""Which function a call is about, and its answer as rows."""

from collections.abc import Mapping
from difflib import get_close_matches

from meltline.app.sql.lakets import chunk_functions, policy_functions, rollup_functions
from meltline.app.sql.lakets.refused import INSTEAD
from meltline.app.sql.lakets.session import Session
from meltline.app.sql.lakets.signatures import Function, Signature, bound
from meltline.app.sql.statement_results import Outcome
from meltline.domain.errors import StatementUnsupported
from meltline.grammar.statements import FunctionCall
from meltline.grammar.tokens import unreadable
from meltline.ports import ReadColumn, ReadRows

FUNCTIONS: Mapping[str, Function] = {
    function.signature.name: function
    for module in (policy_functions, chunk_functions, rollup_functions)
    for function in module.FUNCTIONS
}
"""What runs, by name."""


def run_call(session: Session, call: FunctionCall) -> Outcome:
    """Carries out SELECT lakets.…(…).

    Raises:
        StatementUnsupported: There is no such function, or it does not run here.
        SqlUnreadable: The arguments are not the function's.
        MeltlineError: Whatever the step raises that does it.
    """
    function = FUNCTIONS.get(call.name)
    if function is None:
        raise refused(call.name)
    values, columns = bound(call, function.signature), _columns(call, function.signature)
    answer = function.run(session, values)
    return Outcome(read=ReadRows(columns, answer.rows), warnings=answer.notices)


def refused(name: str) -> StatementUnsupported:
    """The error for a call that is not carried out.

    Args:
        name: The function, in lower case; of one that runs, it is called within a query.
    """
    subject = f"lakets.{name}"
    if name in FUNCTIONS:
        return StatementUnsupported(
            f"{subject} is called within a statement",
            object=subject,
            expected=f"SELECT {subject}(…), or SELECT * FROM {subject}(…), and nothing more",
            found="more than that",
            next="call it by itself, and use what it answers",
        )
    if name in INSTEAD:
        return StatementUnsupported(
            f"{subject} does not run here",
            object=subject,
            expected="a function that docs/sql.md lists",
            found=subject,
            next=f"instead: {INSTEAD[name]}",
        )
    near = get_close_matches(name, [*FUNCTIONS, *INSTEAD], n=3)
    return StatementUnsupported(
        f"there is no function {subject}",
        object=subject,
        expected="a function that docs/sql.md lists",
        found=subject,
        next=f"similar: {', '.join(f'lakets.{n}' for n in near)}" if near else "look there",
    )


def _columns(call: FunctionCall, signature: Signature) -> tuple[ReadColumn, ...]:
    """The answer's columns, as the call names them.

    Raises:
        SqlUnreadable: It names more than there are.
    """
    names = call.columns
    if call.alias and not names and not signature.is_rows:
        names = (call.alias,)
    if len(names) > len(signature.columns):
        expected = f"at most {len(signature.columns)} names of columns"
        raise unreadable(call.text, call.closed, expected, str(len(names)))
    named = [
        ReadColumn(name, column.type)
        for name, column in zip(names, signature.columns, strict=False)
    ]
    return (*named, *signature.columns[len(named) :])
