"""The steps of a container: what isolates it, said as data, and the bytes the compiled init reads."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allaboard.node import filters, steps, users
from allaboard.node.steps import House, Shift, Tree, Worker
from allaboard.node.syscalls import CAPABILITIES

TOP = Tree((("bin", "usr/bin"), ("usr", ""), ("etc", ""), ("srv", ".")))
HOUSE = House(
    "/s",
    etc={"passwd": ["root", 0o644]},
    files={"/etc/ssh/ssh_config": "Host *", "/home/u/run": "#!/bin/sh"},
    home=["/home/u", 7, 8],
    hidden=["/state"],
    visible=["/root/env"],
    devices=["nvidia0"],
    mounts=[{"source": "/v", "target": "/data", "readOnly": True, "group": 5}],
)


def words(shift=steps.SHARED, tree=TOP):
    return steps.build(HOUSE, tree, shift)


PARTS = {
    "a link of the host is a link": ["symlink", "usr/bin", "/s/root/bin"],
    "a directory is an overlay": ["layer", "/usr", "/s/root/usr", "/s/low/usr", "/s/up/usr", "/s/work/usr", ""],
    "an empty directory is one": ["mkdir", "/s/root/srv", "755"],
    "files of ours lie above the host's": ["write", "/s/up/etc/passwd", "644", "0", "0", "root"],
    "files of the image, too": ["write", "/s/up/etc/ssh/ssh_config", "644", "0", "0", "Host *"],
    "a file at home belongs to its user": ["write", "/home/u/run", "755", "7", "8", "#!/bin/sh"],
    "a hidden tree is empty": ["?empty", "/s/root/state", "mode=0755"],
    "an environment in a hidden home is shown": [
        "reveal", "/root/env", "/s/root/root/env", "/s/low/root-env", "/s/up/root-env", "/s/work/root-env", "",
    ],
    "a device is the host's": ["device", "/.old/dev/nvidia0", "/dev/nvidia0"],
    "a volume stands at its path": ["volume", "/.old/v", "/data", "ro", "5", ""],
    "what tells of the machine is masked": ["?mask", "/proc/kcore"],
    "what changes the machine is sealed": ["?seal", "/proc/sys"],
}  # fmt: skip


@pytest.mark.parametrize("want", PARTS.values(), ids=PARTS)
def test_the_tree_of_a_container(want):
    assert want in words()


ONE = Tree(
    (("bin", "usr/bin"), ("usr", ""), ("data", "")), ("/etc/shadow-",), whole=True, others=("f",), apart=("data",)
)
AT_ONCE = {
    "what is always new lets nothing through": ["cover", "/s/up/+/home", "755"],
    "what else stands at the top is not there": ["nothing", "/s/up/+/f"],
    "a hidden tree is empty": ["hide", "/s/up/+", "state", "0755"],
    "so is what belongs to others": ["hide", "/s/up/+", "var/log", "0755"],
    "a private file is not there": ["nothing", "/s/up/+/etc/shadow-"],
    "files of ours lie above the host's": ["write", "/s/up/+/etc/passwd", "644", "0", "0", "root"],
    "files of the image, too": ["write", "/s/up/+/etc/ssh/ssh_config", "644", "0", "0", "Host *"],
    "the tree is one overlay": ["whole", "/s/root", "/s/low/+", "/s/up/+", "/s/work/+", ""],
    "but for other file systems": ["layer", "/data", "/s/root/data", "/s/low/data", "/s/up/data", "/s/work/data", ""],
    "shared memory is no overlay": ["mount", "/s/dev", "/s/root/dev", "", "4096", ""],
}


@pytest.mark.parametrize("want", AT_ONCE.values(), ids=AT_ONCE)
def test_the_tree_of_a_container_at_once(want):
    assert want in words(tree=ONE)


COVERED = Tree(ONE.top, ONE.private, whole=True, others=ONE.others, apart=ONE.apart, cover="/c")


def test_who_shares_the_users_of_the_machine_stands_on_the_layer_that_covers_for_all():
    made = words(tree=COVERED)
    assert not {"cover", "hide", "nothing"} & {step[0] for step in made}
    assert ["whole", "/s/root", "/s/low/+", "/s/up/+", "/s/work/+", "/c"] in made


def test_who_has_users_of_its_own_covers_for_itself():
    uncovered = [step[0] for step in words(Shift(100_000, 200_000), COVERED)]
    assert uncovered == [step[0] for step in words(tree=ONE)]


def test_the_layer_that_covers_for_all_covers_what_every_container_would():
    alone = [step for step in words(tree=ONE) if step[0] in ("cover", "hide", "nothing")]
    assert [
        step for step in steps.covering("/s/up/+", ONE, HOUSE.hidden) if step[0] in ("cover", "hide", "nothing")
    ] == alone


def test_everything_that_may_not_be_seen_is_covered_before_there_is_something_to_see():
    names = [step[0] for step in words(tree=ONE)]
    shown = names.index("whole")
    assert {"cover", "hide", "nothing"} <= set(names[:shown])
    assert not {"cover", "hide", "nothing"} & set(names[shown:])


def test_the_host_is_left_before_anything_of_the_pod_is_mounted_and_is_gone_at_the_end():
    names = [step[0] for step in words()]
    assert names.index("pivot") < names.index("volume") < names.index("unmount") == len(names) - 2
    assert words()[1] == ["mount", "none", "/", "", str(0x44000), ""]  # nothing we mount is seen outside


def test_a_pod_with_users_of_its_own_owns_what_is_made_for_it():
    made = words(Shift(100_000, 200_000))
    assert made[0] == ["shift", "100000", "200000"]
    assert made[2][5].endswith(",uid=100000,gid=200000")


def test_pseudo_root_keeps_its_marks_in_attributes_it_may_write():
    assert all(step[6] == "userxattr" for step in words(tree=Tree(TOP.top, rootless=True)) if step[0] == "layer")


RIGHTS = {
    "the usual ones": ((), (), set(steps.USUAL)),
    "less one": ((), ("NET_RAW",), set(steps.USUAL) - {"NET_RAW"}),
    "and one": (("SYS_PTRACE",), (), set(steps.USUAL) | {"SYS_PTRACE"}),
    "none": ((), ("ALL",), set()),
    "one alone": (("CHOWN",), ("ALL",), {"CHOWN"}),
    "all": (("ALL",), (), set(CAPABILITIES)),
    "all but one": (("ALL",), ("MKNOD",), set(CAPABILITIES) - {"MKNOD"}),
}


@pytest.mark.parametrize(("add", "drop", "want"), RIGHTS.values(), ids=RIGHTS)
def test_which_capabilities_stay(add, drop, want):
    assert steps.kept_capabilities(add, drop) == {CAPABILITIES[name] for name in want}


def test_rights_are_given_up_in_the_order_that_works():
    order = [step[0] for step in steps.become(Worker("/", 7, 8, (8,), filter="00"), isolated=True)]
    assert order == ["users", "?groups", "gid", "filter", "capabilities", "uid", "cwd"]
    assert [step[0] for step in steps.become(Worker("/"), isolated=False)] == ["cwd"]


# Every text of a document, and every byte that is none.
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.binary().map(
    lambda data: data.decode(errors="surrogateescape")
)


@given(st.lists(st.lists(WORDS, min_size=1), max_size=8))
def test_steps_survive_the_way_to_an_init(made):
    assert steps.decode(steps.encode(made)) == made


def test_half_a_character_does_not_stop_a_pod():
    assert steps.decode(steps.encode([["env", "A=\ud800b"]])) == [["env", "A=?b"]]


def test_an_init_in_python_finds_its_file_tree_among_the_steps():
    parts = {"steps": words(), "groups": [["group", "/g"], ["set", "/g/tasks", "0"]]}
    assert steps.parts_of(steps.whole({**parts, "become": [["cwd", "/"]], "env": {}, "argv": ["true"]})) == parts


def judged(program, number, architecture=filters.ARCHITECTURES["x86_64"], flags=0):
    """What the kernel would answer: the filter's instructions, followed by hand."""
    memory = {filters.NUMBER: number, filters.ARCHITECTURE: architecture, filters.ARGUMENT: flags}
    code = list(struct.iter_unpack("=HBBI", program))
    place, held = 0, 0
    while True:
        what, yes, no, value = code[place]
        tests = {filters.EQUAL: held == value, filters.AT_LEAST: held >= value, filters.ANY_BIT: bool(held & value)}
        if what == filters.RETURN:
            return "allow" if value == filters.ALLOW else value & 0xFFFF
        held = memory[value] if what == filters.LOAD else held
        place += 1 + ((yes if tests[what] else no) if what in tests else 0)


CALLS = {
    "reading": ((0,), {}, "allow"),
    "mounting": ((165,), {}, filters.EPERM),
    "loading a module": ((175,), {}, filters.EPERM),
    "starting another kernel": ((246,), {}, filters.EPERM),
    "keys of the kernel": ((250,), {}, filters.EPERM),
    "programs in the kernel": ((321,), {}, filters.EPERM),
    "looking into other processes is the kernel's to judge": ((101,), {}, "allow"),
    "a thread": ((56,), {"flags": 0x3D0F00}, "allow"),
    "a namespace": ((56,), {"flags": 0x10000000}, filters.EPERM),
    "the call whose flags cannot be seen": ((435,), {}, filters.ENOSYS),
    "another architecture": ((0,), {"architecture": 0x40000003}, filters.EPERM),
    "the small pointers' numbers": ((0x40000000,), {}, filters.ENOSYS),
}


@pytest.mark.parametrize(("args", "more", "want"), CALLS.values(), ids=CALLS)
def test_which_calls_the_filter_lets_through(args, more, want):
    assert judged(filters.program("x86_64"), *args, **more) == want


def test_a_capability_opens_the_calls_it_is_for():
    mine = filters.program("x86_64", frozenset({"SYS_ADMIN"}))
    assert (judged(mine, 165), judged(mine, 56, flags=0x10000000), judged(mine, 175)) == ("allow", "allow", 1)
    everything = filters.program("x86_64", frozenset({"ALL"}))
    assert (judged(everything, 175), judged(everything, 250)) == ("allow", filters.EPERM)
    assert filters.program("riscv64") == b""


HAVE = users.Range(1000, 2000, 3 * users.EACH + 5)
ALLOTTED = {
    "the first": (HAVE, set(), (1000, 2000, users.EACH)),
    "the next": (HAVE, {(1000, 2000, users.EACH)}, (1000 + users.EACH, 2000 + users.EACH, users.EACH)),
    "none left": (HAVE, {(1000 + n * users.EACH, 2000 + n * users.EACH, users.EACH) for n in range(3)}, ()),
}


@pytest.mark.parametrize(("have", "taken", "want"), ALLOTTED.values(), ids=ALLOTTED)
def test_every_pod_gets_users_nobody_else_has(have, taken, want):
    assert users.allot(have, taken) == want


def test_a_range_needs_both_files_and_room_for_one_pod():
    assert users.range_of((1, 65536), (2, 70000)) == users.Range(1, 2, 65536)
    assert users.range_of((1, 65535), (2, 70000)) is None
    assert users.range_of(None, (2, 70000)) is None
