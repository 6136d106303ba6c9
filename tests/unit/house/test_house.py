"""What measures the house can fail: small houses that are built badly, one for each figure."""

from dataclasses import replace
from pathlib import Path, PurePosixPath
from textwrap import dedent

import pytest

from tests.house import figures, size, structure
from tests.house.__main__ import RULES, Rule, held, portrait
from tests.house.sources import House, Source, read


def house(**texts: str) -> House:
    """Modules of the package by name, `__` between folders; `ports__` is that of the folder."""
    return House(
        tuple(
            Source(
                PurePosixPath(
                    "include/meltline", *(part or "__init__" for part in name.split("__"))
                ).with_suffix(".py"),
                dedent(text),
            )
            for name, text in texts.items()
        )
    )


def files(folder: str, count: int, lines: int = 1) -> House:
    return House(
        tuple(
            Source(PurePosixPath(folder, f"module{number}.py"), "pass\n" * lines)
            for number in range(count)
        )
    )


def test_a_folder_counts_the_files_that_stand_directly_in_it() -> None:
    crowded = House(files("include/meltline/app", 16).sources + files("dags/deep", 3).sources)
    assert figures.folders(crowded) == (16, ["16 include/meltline/app", "3 dags/deep"])


@pytest.mark.parametrize(
    "folder", ["benchmarks", "include/meltline/adapters/sql/migrations/versions"]
)
def test_a_folder_that_is_to_be_flat_is_not_judged(folder: str) -> None:
    assert figures.folders(files(folder, 40)) == (0, [])


def test_a_folder_below_one_that_is_to_be_flat_is_judged() -> None:
    assert figures.folders(files("benchmarks/deep", 40)).value == 40


def test_files_of_tests_and_all_others_are_told_apart() -> None:
    both = House(files("dags", 1, lines=401).sources + files("tests/unit", 1, lines=501).sources)
    assert figures.file_lengths(both) == (401, ["401 dags/module0.py"])
    assert figures.file_lengths(both, tests=True) == (501, ["501 tests/unit/module0.py"])


def test_one_long_function_in_ten_is_let_pass_and_the_second_is_not() -> None:
    short, long = "def short():\n    pass\n", "def long():\n" + "    pass\n" * 30
    assert figures.function_lengths(house(app=short * 9 + long)).value == 2
    assert figures.function_lengths(house(app=short * 8 + long * 2)).value == 31


def test_complexity_counts_operators_and_comprehensions_too() -> None:
    text = """
        def judge(rows, first, second):
            if first and second or not rows:
                return [row for row in rows if row]
            try:
                return first if second else None
            except OSError:
                return None
    """
    # Itself, if, and, or, comprehension, its condition, inner if, except.
    assert [size for size, _ in figures.by_function(house(app=text), figures.complexity)] == [8]


def test_a_function_within_a_function_is_judged_by_itself() -> None:
    text = """
        def outer(rows):
            def inner(row):
                if row:
                    pass
            if rows:
                pass
    """
    assert [size for size, _ in figures.by_function(house(app=text), figures.complexity)] == [2, 2]


def test_functions_above_ten_are_counted_in_percent() -> None:
    twisted = "def twisted(a):\n    return " + " or ".join("a" * 11) + "\n"
    figure = figures.complex_functions(house(app=twisted + "def plain():\n    pass\n" * 3))
    assert figure == (25.0, ["11 include/meltline/app.py:1 twisted"])


def test_marks_that_hold_off_the_formatter_are_found_in_comments_alone() -> None:
    text = "rows = (1,)  # fmt: skip\n# fmt: off\nmark = '# fmt: skip'\n"
    assert figures.unformatted(house(app=text)).value == 2


def test_names_that_say_nothing_are_found_wherever_they_are_bound() -> None:
    text = """
        import thing
        from shop import item

        class Shelf:
            data: int

            def value(self, one, *, size):
                for entry in size:
                    pass
                return [it for it in size]

        _other = found_rows = 1
    """
    # Bound are Shelf, data, value, one, size, entry, it, _other and found_rows.
    figure = figures.empty_names(house(app=text))
    assert figure.value == pytest.approx(100 * 6 / 9, abs=0.05)
    assert figure.places[0].startswith("6 include/meltline/app.py: ")


def test_rooms_that_import_each_other_are_a_circle_however_long_and_however_hidden() -> None:
    circle = house(
        app__gate__checks="from meltline.app.purge import steps",
        app__purge__steps="def late():\n    import meltline.app.drop.steps",
        app__drop__steps="""
            from typing import TYPE_CHECKING
            if TYPE_CHECKING:
                from meltline.app import gate
        """,
        app__clone="from meltline.app.drop import steps",
    )
    figure = structure.circles(circle)
    assert figure.value == 3
    assert figure.places[0] == "meltline.app.drop -> meltline.app.gate"


def test_modules_of_one_room_and_rooms_of_two_layers_are_no_circle() -> None:
    good = house(
        app__gate__checks="from meltline.app.gate.rules import RULES",
        app__gate__rules="import meltline.app.gate.checks",
        app__purge="from meltline.app import gate\nfrom meltline.domain.clock import Clock",
        domain__clock="import meltline.app.purge",
    )
    assert structure.circles(good) == (0, [])


PROTOCOLS = {
    "ports__locks": """
        from typing import Protocol

        class Locks(Protocol):
            def take(self): ...
            def drop(self): ...
    """,
    "ports__": "from meltline.ports.locks import Locks",
    "ports__ledger": """
        import typing
        from meltline import ports

        class Ledger(ports.Locks, typing.Protocol[Row]):
            async def rows(self): ...
            def take(self): ...
    """,
    "adapters__sql": """
        from meltline.ports.ledger import Ledger as Wide

        class SqlLedger(Wide[int]):
            def rows(self): ...
            def close(self): ...
    """,
}


def test_a_protocol_has_the_methods_of_those_that_it_is_made_of() -> None:
    figure = structure.methods(house(**PROTOCOLS), protocols=True)
    assert figure == (3, ["3 meltline.ports.ledger.Ledger", "2 meltline.ports.locks.Locks"])


def test_a_class_has_the_methods_that_it_inherits_from_any_module() -> None:
    figure = structure.methods(house(**PROTOCOLS), protocols=False)
    assert figure == (4, ["4 meltline.adapters.sql.SqlLedger"])


def test_a_function_takes_a_bag_by_any_of_its_parameters() -> None:
    text = """
        def positional(services: Services): ...
        def keyword(*, ports: "ReadContext | None" = None): ...
        def spread(*many: wiring.Ledgers): ...
        def plain(plan: Plan, ServicesLike: int) -> Services: ...
    """
    figure = figures.bag_takers(house(app=text))
    assert figure.value == 75
    assert [place.split()[-1] for place in figure.places] == ["positional", "keyword", "spread"]


# --- what is made of the figures ---------------------------------------------------------------


def rule(limit: float, ratchet: float | None = None) -> Rule:
    return Rule("lines of a file", figures.file_lengths, limit, ratchet)


@pytest.mark.parametrize(
    ("limit", "ratchet", "good", "verdict"),
    [
        (5, None, True, "holds"),
        (4, None, False, "WORSE THAN IT MAY BE"),
        (3, 4, False, "WORSE THAN IT MAY BE"),
        (3, 5, True, "above its limit, no worse than it was"),
        (5, 7, True, "holds: its ratchet can go"),
    ],
)
def test_a_figure_may_be_at_its_limit_and_no_worse_than_its_ratchet(
    limit: float,
    ratchet: float | None,
    good: bool,
    verdict: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert held(files("dags", 1, lines=5), [rule(limit, ratchet)], 3) is good
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith(verdict)
    assert printed[1].strip() == "5 dags/module0.py"


def test_one_bad_figure_among_good_ones_fails() -> None:
    assert not held(files("dags", 1, lines=5), [rule(9), rule(4), rule(9)], 0)


REPEATED = "".join(f"class Shape{n}:\n    pass\n" for n in range(11))
BAD = House(
    files("include/meltline/app", 200).sources
    + files("dags", 1, lines=2000).sources
    + files("tests/unit", 1, lines=2000).sources
    + house(
        app__gate="import meltline.app.purge\ntmp = 1  # fmt: skip\n" + "pass  # fmt: skip\n" * 99,
        app__drop="import meltline.app.gate",
        app__purge="import meltline.app.drop\ndef long(a):\n" + "    a = a or a\n" * 99,
        ports__wide="from typing import Protocol\nclass Wide(Protocol):\n"
        + "".join(f"    def method{number}(self): ...\n" for number in range(40)),
        app__heir="from meltline.ports.wide import Wide\nclass Heir(Wide):\n    pass",
        app__long="".join(
            f"def long{n}(item: RunContext):\n" + "    tmp = [a or 1 for a in item if a]\n" * 30
            for n in range(99)
        ),
        app__importing="import meltline.app.purge\n" * 999,
        **{f"app__{room}": REPEATED for room in ("first", "second")},
        **{f"app__lone{n}": "" for n in range(61)},
        **{f"app__by{n}": f"import meltline.app.lone{n}\n" for n in range(61)},
    ).sources
)


SIZE = next(rule for rule in RULES if rule.measure is size.syntax_nodes)


@pytest.mark.parametrize(
    "each", [rule for rule in RULES if rule is not SIZE], ids=lambda each: each.name
)
def test_each_rule_fails_where_all_is_bad(each: Rule) -> None:
    assert not held(BAD, [each], 3)


def test_the_size_is_held_in_syntax_nodes_however_lines_are_packed() -> None:
    packed, unpacked = house(app="a = 1; b = 2\n"), house(app="a = 1\n\nb = 2\n")
    assert size.syntax_nodes(packed).value == size.syntax_nodes(unpacked).value == 9
    assert held(packed, [replace(SIZE, limit=9, ratchet=None)], 0)
    assert not held(packed, [replace(SIZE, limit=8, ratchet=None)], 0)


def test_density_is_that_of_bodies_without_their_docstrings() -> None:
    text = """
        def loose(a):
            \"\"\"A docstring.\"\"\"
            b = a

            return b
    """
    # Assign, Name, Store, Name, Load, Return, Name, Load: 8 on 3 lines.
    assert size.density(house(app=text)).value == 2.7


def test_a_module_that_another_folder_imports_too_is_no_lone_neighbour() -> None:
    alone = {"app__gate__judge": "", "app__gate__gate": "from meltline.app.gate import judge\n"}
    assert size.lone_neighbours(house(**alone)).value == 1
    shared = {**alone, "app__run": "import meltline.app.gate.judge\n"}
    assert size.lone_neighbours(house(**shared)).value == 0


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.name)
def test_each_rule_holds_where_nothing_is(each: Rule) -> None:
    assert each.measure(House(())).value == 0


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.name)
def test_a_ratchet_never_asks_for_more_than_the_limit(each: Rule) -> None:
    assert each.ratchet is None or each.ratchet > each.limit


def test_the_portrait_counts_statements_within_statements() -> None:
    text = portrait(house(app="def judge(ledgers: Ledgers):\n    # Why.\n    return 1\n"))
    assert "     2  statements of the package" in text
    assert "  33.3  comments per 100 lines" in text


def test_a_house_is_read_from_its_folders_and_from_no_others(tmp_path: Path) -> None:
    for name in ("include/meltline/app/gate.py", "dags/daily.py", ".venv/lib.py", "build/old.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("pass\n", encoding="utf-8")
    paths = [str(source.path) for source in read(tmp_path).sources]
    assert paths == ["dags/daily.py", "include/meltline/app/gate.py"]
    assert [source.module for source in read(tmp_path).package] == ["meltline.app.gate"]
