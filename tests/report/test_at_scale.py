"""The section on many GPUs, as readers of each format meet it."""

from __future__ import annotations

import msgspec
import pytest

from codesign._common.scores import Interval
from codesign.cluster.records import AtScale, DomainAtScale, LeverAtScale, NeighbourLoss, Placed
from codesign.recommend.schema import Recommendations
from codesign.report import render_html, render_markdown
from codesign.report.text import printable
from tests.report.factory import recommendations
from tests.report.reading import normal, read_html
from tests.report.test_hostile import HOSTILE


def _placed(gpus: int, step_s: float, plan: str) -> Placed:
    return Placed(
        system="toy", gpus=gpus, plan=plan, step_s=Interval(step_s, step_s / 1.2, step_s * 1.2),
        tokens_per_s_gpu=1000.0, mfu=0.41, hfu=0.43,
        breakdown={"compute": 0.8 * step_s, "ep": 0.2 * step_s},
        memory_bytes={"weights": 30e9, "activations": 20e9}, needed_bytes=55e9, fits=True,
    )  # fmt: skip


def _with(recs: Recommendations, name: str = "moe") -> Recommendations:
    lever = recs.levers[0]
    one = AtScale(
        workload=name, gpus=1024, global_batch=4096, sequence_length=8192, precision="fp8",
        plan_in_use=_placed(1024, 12.0, "tp8 dp128"), best=_placed(1024, 10.0, "ep64 dp1024"),
        neighbours=(NeighbourLoss("ep", "ep32 dp1024", 0.05, "ep +4.0% of the step"),
                    NeighbourLoss("tp", "tp2 dp512", None, "does not fit")),
        scaling=(_placed(512, 9.5, "ep64 dp512"),),
        levers=(LeverAtScale(lever.lever, lever.title, "+50 %", 1.5, Interval(1.1, 1.05, 1.15),
                             Interval(1.2, 1.1, 1.3), "ep32", False),),
        domains=(DomainAtScale(8, 1.0, 1.0, "ep8"), DomainAtScale(72, 1.25, 1.5, "ep64")),
        control=(DomainAtScale(8, 1.0, 1.0, "dp8"), DomainAtScale(72, 1.0, 1.0, "dp8")),
        control_job="llama on 8 GPUs", tried=1234,
    )  # fmt: skip
    return msgspec.structs.replace(recs, at_scale=(one,))


def test_the_section_stands_only_where_a_workload_says_its_gpus() -> None:
    plain = recommendations()
    for text in (render_html(plain), render_markdown(plain)):
        assert "Over many GPUs" not in text
    for text in (render_html(_with(plain)), render_markdown(_with(plain))):
        assert "Over many GPUs" in text
        assert "takes 1.200 times as long" in text  # 12 s in use, 10 s at best
        assert "x1.250 at this plan and x1.500 with both re-planned" in text


def test_tables_hold_what_the_file_does() -> None:
    recs = _with(recommendations())
    page = read_html(render_html(recs))
    assert page.problems == []
    tables = {k.split("-")[-1]: v for k, v in page.tables.items() if k.startswith("at-scale-")}
    assert set(tables) == {"plans", "levers", "domains", "neighbours"}
    assert [row[1] for row in tables["plans"][1:]] == ["1,024", "1,024", "512"]
    assert "compute 80.0 %, ep 20.0 %" in " ".join(tables["plans"][2])
    assert tables["domains"][2][0] == "72"
    assert tables["domains"][2][-1] == "x1.000"
    assert "does not fit" in tables["levers"][1][-1]
    assert "5" in tables["neighbours"][1][2]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_of_workloads_are_harmless(name: str) -> None:
    html = render_html(_with(recommendations(), name))
    page = read_html(html)
    assert page.problems == []
    assert html.count("</script>") == 1
    assert normal(printable(name)) in page.text
