"""Ways in which a store could be opened with what is not its own, or show two versions as one."""

from tests.mutation.mutation import Mutation

VENDED = ("tests/unit/stores/test_vended.py",)
ACCOUNTS = ("tests/unit/stores/test_accounts.py",)

STORES = (
    Mutation(
        "stores: a container of any account is opened in the configured one",
        "adapters/object_store/cloud.py",
        "is_configured = not account or account == (configured or account).lower()",
        "is_configured = True", ACCOUNTS,
    ),
    Mutation(
        "stores: an account is named by the configuration alone", "adapters/object_store/cloud.py",
        '"account_name": account or configured', '"account_name": configured or account', ACCOUNTS,
    ),
    Mutation(
        "stores: a listing's version is another one", "adapters/object_store/stats.py",
        "return etag if not etag or etag.endswith('\"') else f'\"{etag}\"'", "return etag",
        ACCOUNTS,
    ),
    Mutation(
        "stores: what one table is vended opens its neighbour", "adapters/object_store/vended.py",
        "        while at not in vended:\n", "        while at.rstrip('/') not in str(vended):\n",
        VENDED,
    ),
    Mutation(
        "stores: a wide prefix opens more than its table", "adapters/object_store/vended.py",
        "yield from covered or [own]", "yield own", VENDED,
    ),
    Mutation(
        "stores: vended credentials are not renewed", "adapters/object_store/vended.py",
        "        if not self._ends_within(_MARGIN, vended):\n", "        if vended:\n", VENDED,
    ),
    Mutation(
        "stores: what has ended is used on", "adapters/object_store/vended.py",
        "        if self._ends_within(timedelta(0), renewed):\n", "        if not renewed:\n",
        VENDED,
    ),
)  # fmt: skip
