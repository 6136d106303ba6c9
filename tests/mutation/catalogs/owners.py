"""Ways in which a file would go that an owner needs whom Meltline cannot see."""

from tests.mutation.mutation import Mutation

GUARDS = ("tests/unit/clone/test_owner_guards.py",)

OWNERS = (
    Mutation(
        "a table whose owner forbids deletions is managed",
        "app/catalog/tables.py",
        "    ours = ours and not owner_guard  #",
        "    ours = ours  #",
        GUARDS,
    ),
    Mutation(
        "gc.enabled=false is always Meltline's own",
        "domain/clone/clones.py",
        '    return GC if is_guarded(properties) and not is_ours else ""\n',
        '    return ""\n',
        GUARDS,
    ),
    Mutation(
        "a mark that was copied from another table makes a guard Meltline's own",
        "domain/clone/clones.py",
        "    is_ours = recorded and (GC_BEFORE",
        "    is_ours = (GC_BEFORE",
        GUARDS,
    ),
    Mutation(
        "a guard that the owner had set before counts as Meltline's own",
        "domain/clone/clones.py",
        "    is_ours = recorded and (GC_BEFORE in properties or _SHARED_UUID in properties)\n",
        "    is_ours = recorded\n",
        GUARDS,
    ),
    Mutation(
        "the owner's word to Meltline alone does not count",
        "domain/clone/clones.py",
        '    if properties.get(OWNER_GC, "true").strip().lower() == "false":\n',
        "    if False:\n",
        GUARDS,
    ),
    Mutation(
        "what waits of a table stays due when its owner forbids deletions",
        "app/purge/plan_purge.py",
        "    _cancel_guarded(context, observation)\n",
        "",
        GUARDS,
    ),
    Mutation(
        "no gate asks whether the owner forbids it",
        "app/gate/cases.py",
        "        return OwnerGuards.read(self.sources.guards).among(self.proof.world.states)\n",
        "        return frozenset()\n",
        GUARDS,
    ),
    Mutation(
        "a clone's own guard is not recorded",
        "app/clone/clone.py",
        "        log.sets(part.own.uuid)\n",
        "",
        GUARDS,
    ),
    Mutation(
        "an adopted ledger keeps overrides of owners' settings",
        "app/doctor/init.py",
        "        control.decisions.forget_guard(record.table_uuid, GuardKind.OVERRIDDEN)\n",
        "        pass\n",
        GUARDS,
    ),
    Mutation(
        "an override outlives the detaching of its table",
        "app/catalog/management.py",
        "            context.control.decisions.forget_guard(row.uuid, GuardKind.OVERRIDDEN)\n",
        "            pass\n",
        GUARDS,
    ),
)
