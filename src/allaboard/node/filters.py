"""The seccomp filter of a container: calls that change the machine rather than the pod are refused, whoever makes them.

Upstream: the default profile of container runtimes. A capability that is asked for by name opens the calls it is for.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from functools import cache

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Which calls are refused without which capability ("" : always), with their numbers on x86_64 and aarch64 (-1: none).
CALLS: dict[str, dict[str, tuple[int, int]]] = {
    "SYS_ADMIN": {
        "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "move_mount": (429, 429),
        "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
        "fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
        "swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "quotactl_fd": (443, 443),
        "fanotify_init": (300, 262), "lookup_dcookie": (212, 18), "bpf": (321, 280), "perf_event_open": (298, 241),
        "setdomainname": (171, 162), "sethostname": (170, 161), "open_tree_attr": (467, 467),
    },
    "SYS_MODULE": {"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106)},
    "SYS_BOOT": {"reboot": (169, 142), "kexec_load": (246, 104), "kexec_file_load": (320, 294)},
    "SYS_TIME": {"settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266)},
    "SYS_PACCT": {"acct": (163, 89)},
    "SYS_RAWIO": {"iopl": (172, -1), "ioperm": (173, -1)},
    "SYSLOG": {"syslog": (103, 116)},
    "DAC_READ_SEARCH": {"open_by_handle_at": (304, 265)},
    "SYS_TTY_CONFIG": {"vhangup": (153, 58)},
    "": {
        "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "userfaultfd": (323, 282),
        "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
        "nfsservctl": (180, 42), "uselib": (134, -1), "ustat": (136, -1), "sysfs": (139, -1), "_sysctl": (156, -1),
    },
}  # fmt: skip
CLONE, CLONE3 = {"x86_64": 56, "aarch64": 220}, 435
NEW_NAMESPACES = 0x7E020000  # every flag of clone that makes one
FIRST_X32 = 0x40000000

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, ARGUMENT = 0, 4, 16
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
EPERM, ENOSYS = 1, 38

Instruction = tuple[int, int, int, int]


@cache
def program(machine: str, capabilities: frozenset[str] = frozenset()) -> bytes:
    """The filter for a machine, for a container with these capabilities added; empty where we know no numbers."""
    if machine not in ARCHITECTURES:
        return b""
    refused = _refused(machine, capabilities)
    made: list[Instruction] = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, ARCHITECTURES[machine])]
    made += [_refuse(EPERM), (LOAD, 0, 0, NUMBER)]
    if machine == "x86_64":
        made += [(AT_LEAST, 0, 1, FIRST_X32), _refuse(ENOSYS)]
    for number in refused:
        made += [(EQUAL, 0, 1, number), _refuse(EPERM)]
    if not {"SYS_ADMIN", "ALL"} & set(capabilities):
        # The flags of clone3 stand in memory, where a filter cannot look; C libraries fall back to clone.
        made += [(EQUAL, 0, 1, CLONE3), _refuse(ENOSYS), (EQUAL, 0, 3, CLONE[machine])]
        made += [(LOAD, 0, 0, ARGUMENT), (ANY_BIT, 0, 1, NEW_NAMESPACES), _refuse(EPERM)]
    return _packed([*made, (RETURN, 0, 0, ALLOW)])


def _refused(machine: str, capabilities: Collection[str]) -> list[int]:
    column = list(ARCHITECTURES).index(machine)
    groups = [calls for owner, calls in CALLS.items() if owner not in capabilities and "ALL" not in capabilities]
    groups += [CALLS[""]] if "ALL" in capabilities else []
    return sorted(numbers[column] for calls in groups for numbers in calls.values() if numbers[column] >= 0)


def _refuse(number: int) -> Instruction:
    return (RETURN, 0, 0, ERRNO | number)


def _packed(instructions: Sequence[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
