"""The screens of `aboard why` and `aboard ps`."""

from datetime import UTC, datetime

from allaboard.cli.ps import line_of
from allaboard.cli.why import screen_of
from allaboard.sdk.explaining import Explanation, Holder
from allaboard.sdk.jobs import Failure, Job

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


def test_a_waiting_job_shows_reason_numbers_holders_and_commands():
    found = Explanation(
        "bert", "Waiting", "needs 2 gpu, 0 free; queue holds 4", 724.0, code="FairShare", queue="nlp", gang="0/2",
        needs={"gpu": "2 gpu"}, free={"gpu": "0 gpu"}, held_by=(Holder("llama", "4 gpu", "nlp", preemptible=False),),
        position=2, overall=4, unblock=("2 more gpu become free",), could=("aboard queue",),
    )  # fmt: skip
    assert screen_of(found, []) == [
        "bert is WAITING (it will run; nothing to fix)  for 12:04",
        "",
        " Reason    FairShare",
        "    needs 2 gpu, 0 free",
        "    queue holds 4",
        " Needs     2 gpu at once (gang 0/2)",
        " Free now  0 gpu",
        " Queue     nlp, 2nd in line there, 4th overall",
        " Held by   llama  4 gpu  nlp  not preemptible",
        " Helps     2 more gpu become free",
        " You could aboard queue",
    ]


def test_what_a_queue_may_still_use_is_not_called_free():
    numbers = {"needs": {"gpu": "2 gpu"}, "free": {"gpu": "1 gpu"}}
    found = Explanation("j", "Waiting", "words", 9.0, code="OverLimit", queue="q", gang="0/2", **numbers)
    assert " May use   1 gpu" in screen_of(found, [])


def test_a_failed_job_shows_the_last_words_of_the_first_rank():
    failure = Failure("r1", "p", "n", 3, "Error", "", "boom")
    found = Explanation(
        "j",
        "Failed",
        "rank 1 ended first",
        9.0,
        code="Error",
        failure=failure,
        others_failed=3,
        could=("aboard logs j",),
    )
    assert screen_of(found, ["boom"]) == [
        "j has FAILED  after 9.0 s",
        "",
        " Reason    Error",
        "    rank 1 ended first",
        "    │ boom",
        " Then      3 more failed after it (consequence, not cause)",
        " You could aboard logs j",
    ]


def test_a_complete_job_needs_one_line():
    assert screen_of(Explanation("j", "Complete", "", 9.0), []) == ["j is COMPLETE  in 9.0 s"]


def test_a_line_of_ps_ends_with_code_reason_and_place():
    document = {"metadata": {"name": "j", "creationTimestamp": "2026-01-01T12:00:00Z"}, "spec": {}}
    said = {"code": "FairShare", "message": "needs 2 gpu, 0 free", "position": 2}
    condition = {"message": "needs 2 gpu, 0 free", "status": "True"}
    status = {"aboard": {"why": said}, "schedulingConditions": [condition]}
    spec = {"minMember": 2, "queue": "nlp", "priorityClassName": "train"}
    line = line_of(
        Job(document, [], [{"metadata": {"name": "g"}, "spec": spec, "status": status}]), NOW, {"train": 50}, []
    )
    assert line == [
        "j", "nlp", "50", "0/2", "0", "Pending", "30.0 s", "–", "(FairShare) needs 2 gpu, 0 free; pos 2",
    ]  # fmt: skip
