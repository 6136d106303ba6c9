"""Objects that a purge leaves, as they are not what was recorded: forgotten, or taken all the same."""

# ruff: noqa: E501 - the lines are other files', as they stand there

from tests.mutation.mutation import Mutation

LEFT = ("tests/unit/purge/test_not_as_recorded.py",)

LEFT_OBJECTS = (
    Mutation(
        "left: what a purge left is planned each night",
        "app/purge/plan_purge.py",
        "    staying = awaited.union(departure.path for departure in leftovers)\n",
        "    staying = awaited\n",
        LEFT,
    ),
    Mutation(
        "left: only the purge that meets it says so",
        "app/purge/plan_purge.py",
        "    note_left(context.control, leftovers)\n",
        "    note_left(context.control, [])\n",
        LEFT,
    ),
    Mutation(
        "left: the night that meets it leaves it out of the status",
        "app/purge/purge.py",
        "                note_left(context.control, left_by_now(context))\n",
        "                pass\n",
        LEFT,
    ),
    Mutation(
        "left: a sweep takes it for a file that waits",
        "tests/doubles/sweeper.py",
        "                is_stray = not before.is_on_its_way\n",
        "                is_stray = before.state is DepartureState.DELETED\n",
        LEFT,
    ),
    Mutation(
        "left: a plan waits for it for ever",
        "tests/doubles/files.py",
        "for departure in waiting if departure.is_on_its_way}",
        "for departure in waiting}",
        LEFT,
    ),
    Mutation(
        "left: of two sizes of a path the list has the first",
        "app/storage/file_status.py",
        "        file.bytes = max(file.bytes, size)  #",
        "        file.bytes = file.bytes  #",
        LEFT,
    ),
)
