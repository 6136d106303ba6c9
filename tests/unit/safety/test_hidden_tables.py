"""The hidden table of a materialized view: its files are references, and it is never changed."""

from tests.lake.lake import Lake


def test_a_hidden_table_keeps_its_files_and_nothing_of_it_expires() -> None:
    lake = Lake()
    view, beside = lake.on(0).table("mv"), lake.table("t")
    lake.catalogs["lake"].hidden.add(view.name)
    for day in range(4):
        lake.on(day)
        view.overwrite(f"m{day}")
        beside.overwrite(f"f{day}")
    before = view.snapshots
    kept = {path for path in lake.paths() if "/mv/" in path}
    for day in (12, 13, 21, 30):
        assert lake.on(day).run().exit_code == 0
    assert view.snapshots == before and kept <= lake.paths()
    assert beside.snapshots == [beside.head] and not any("f0" in path for path in lake.paths())


def test_a_file_that_another_table_drops_stays_while_a_hidden_table_has_it() -> None:
    lake = Lake()
    view, beside = lake.on(0).table("mv"), lake.table("t")
    lake.catalogs["lake"].hidden.add(view.name)
    beside.overwrite("shared")
    (path,) = [path for path in lake.paths() if "shared" in path and "/t/" in path]
    view.append(path)
    lake.on(1)
    beside.overwrite("next")
    for day in (12, 13, 21, 30):
        lake.on(day).run()
    assert path in lake.paths()
