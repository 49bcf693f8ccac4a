"""The file of framework rules: as shipped, and refused in one line where it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from codesign._common.errors import DataError
from codesign.cluster.framework_table import load_rules, shipped_rules
from codesign.cluster.published import read_bridge

RULE = """\
source: someone
rules:
  - when: {since: "26.02"}
    set: {graphs: partial}
    why: a configuration
  - when: {systems: [hgx-b200], zero: 3}
    set: {offload_layers: 4}
    why: another
"""


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_table_is_valid_and_says_why() -> None:
    rules = shipped_rules()
    assert "Megatron Bridge" in rules.source
    assert len({rule.why for rule in rules.rules}) > len(rules.rules) / 2
    assert all(rule.set.given() for rule in rules.rules)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("graphs: partial", "grahps: partial", "rules[0].set: Object contains unknown field"),
        ("graphs: partial", "graphs: most", "rules[0].set.graphs: Invalid enum value 'most'"),
        ("graphs: partial", "", "rules[0].set: empty"),
        ("zero: 3", "zeros: 3", "rules[1].when: Object contains unknown field `zeros`"),
        ("zero: 3", "zero: {}", "rules[1].when.zero: expected min, max or both"),
        ("zero: 3", "zero: {min: 3, max: 1}", "rules[1].when.zero: min = 3 is above max = 1"),
        ("zero: 3", "zero: three", "rules[1].when.zero: Expected"),
        ('"26.02"', "26.02", "rules[0].when.since: Expected `str | null`, got `float`"),
        ('"26.02"', '"26.2"', "rules[0].when.since: '26.2' is no release; expected as"),
        ("hgx-b200", "hgx-b20", "rules[1].when.systems: unknown system 'hgx-b20'"),
        ("hgx-b200", "", "rules[1].when.systems: empty"),
        ("zero: 3", "models: [llama-3-9b]", "rules[1].when.models: unknown model 'llama-3-9b'"),
        ("offload_layers: 4", "offload_layers: -1", "rules[1].set: offload_layers = -1"),
        ("offload_layers: 4", "moment_bytes: .nan", "rules[1].set: moment_bytes = nan"),
        ("why: another", "why: ' '", "rules[1].why: empty"),
        ("why: another", "", "rules[1]: Object missing required field `why`"),
        ("source: someone", "source: ''", "source: empty"),
        ("source: someone", "source: a\nsource: b", "stands here twice"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = _file(tmp_path, RULE.replace(old, new))
    with pytest.raises(DataError) as caught:
        load_rules(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert says in message
    assert "\n" not in message


def test_a_bad_key_is_told_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"allowed: .*graphs.*dispatcher"):
        load_rules(_file(tmp_path, RULE.replace("graphs:", "graph:")))


def test_a_file_that_is_missing_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.yaml"):
        load_rules(tmp_path / "none.yaml")


def test_runs_go_by_the_rules_that_they_are_read_with(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        "release,system,model,gpus,precision,gbs,mbs,seq,fsdp,tp,pp,cp,vp,ep,tok_s_gpu\n"
        "26.04 NeMo,DGX-B200,LLAMA3_70B,64,BF16,128,1,8192,64,1,1,1,n/a,n/a,1633\n",
        encoding="utf-8",
    )  # fmt: skip
    (run,) = read_bridge(table, load_rules(_file(tmp_path, RULE)))
    assert (run.job.framework.graphs, run.job.framework.offload) == ("partial", 4 / 80)
    (shipped,) = read_bridge(table)
    assert shipped.job.framework.offload == 5 / 80
