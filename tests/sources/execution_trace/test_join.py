"""Shapes of an execution trace at the ops of a Kineto trace."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codesign._common.errors import CodesignError, DataError, UsageError
from codesign.sources import read
from codesign.sources.execution_trace import pair, read_execution_trace
from tests.sources.kineto.traces import annotation, kernel, launch, op, write
from tests.sources.xplane.spaces import blob, number, varint

SHAPES, TYPES = [[64, 128], [128, 256]], ["Tensor(c10::BFloat16)", "Tensor(c10::BFloat16)"]


def node(ident, name="aten::mm", shapes=SHAPES, types=TYPES, values=("t", "t")):
    return {"name": name, "id": ident + 10, "rf_id": ident, "inputs": list(values),
            "input_shapes": shapes, "input_types": types}  # fmt: skip


def execution(folder, nodes, name="et.json", **keys):
    path = folder / name
    path.write_text(json.dumps({"schema": "1.0.1", "pid": 7, **keys, "nodes": nodes}))
    return path


def calls(first, count, start=0.0, name="aten::mm"):
    """``count`` ops, 100 us apart, each with a launch and a kernel of 10 us."""
    events = []
    for i in range(count):
        at, ident = start + 100 * i, first + i
        events.append(op(at, 50, name, external=ident))
        events[-1]["args"]["Record function id"] = ident
        events += [launch(at + 5, ident), kernel(at + 20, 10, corr=ident)]
    return events


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path, calls(1, 3))


def flops(char):
    return float(char.ops["flops"].fillna(0.0).sum())


MM = 2 * 64 * 256 * 128


def test_ops_get_shapes_by_their_record_function_id(trace, tmp_path):
    assert flops(read(trace)) == 0
    char = read(trace, execution_trace=execution(tmp_path, [node(i) for i in (1, 2, 3)]))
    assert flops(char) == 3 * MM
    assert char.ops["precision"].iloc[0] == "bf16"
    assert char.header.quality.shape_coverage == 1.0
    assert any("3 ops from et.json" in n for n in char.header.notes)


def test_only_what_was_recorded_gets_a_shape(trace, tmp_path):
    char = read(trace, execution_trace=execution(tmp_path, [node(2)]))
    assert flops(char) == MM
    assert char.header.quality.shape_coverage == pytest.approx(1 / 3)


def test_it_may_stand_among_the_traces(trace, tmp_path):
    assert flops(read([trace, execution(tmp_path, [node(1)])])) == MM


def test_newer_schemas_hold_inputs_and_ids_elsewhere(trace, tmp_path):
    new = {"name": "aten::mm", "id": 4, "attrs": [{"name": "rf_id", "type": "uint64", "value": 1}],
           "inputs": {"values": [[1, 2], [3, 4]], "shapes": SHAPES, "types": TYPES}}  # fmt: skip
    path = execution(tmp_path, [new], schema="1.1.1-chakra.0.0.4")
    assert flops(read(trace, execution_trace=path)) == MM


def test_values_of_scalars_come_along(tmp_path):
    """The causal flag of attention is a value, not a shape."""
    name = "aten::_scaled_dot_product_flash_attention"
    path = write(tmp_path, calls(1, 1, name=name))
    shapes = [[2, 8, 64, 32]] * 3 + [[], []]
    types = ["Tensor(c10::BFloat16)"] * 3 + ["Double", "Bool"]
    et = execution(tmp_path, [node(1, name, shapes, types, ("t", "t", "t", 0.0, True))])
    attention = read(path, execution_trace=et).ops.iloc[0]
    assert bool(attention["causal"]) is True
    # 2 products of 2 FLOPs over the lower triangle: 64 * 65 / 2 pairs.
    assert attention["flops"] == 2 * 8 * (64 * 65 / 2) * 4 * 32


def steps(count, ops=2):
    events = []
    for i in range(count):
        events.append(annotation(1000 * i, 900, f"ProfilerStep#{i}"))
        events += calls(1 + ops * i, ops, 1000 * i + 10)
    return events


def test_other_steps_of_the_same_ops_take_their_shapes(tmp_path):
    path = write(tmp_path, steps(4))
    char = read(path, execution_trace=execution(tmp_path, [node(3), node(4)]))
    assert flops(char) == 2 * MM  # a step
    assert any("6 ops in other steps" in n for n in char.header.notes)


def test_a_step_of_other_ops_takes_none(tmp_path):
    events = steps(2)
    last = [e for e in events if e["cat"] == "cpu_op"][-1]
    last["name"] = "aten::bmm"
    char = read(write(tmp_path, events), execution_trace=execution(tmp_path, [node(1), node(2)]))
    assert flops(char) == 2 * MM / 2  # of two steps one has shapes


def test_another_run_is_refused(trace, tmp_path):
    et = execution(tmp_path, [node(1), node(2, "aten::relu"), node(3, "aten::add")])
    with pytest.raises(DataError, match=r"et\.json: not of the run of .*1 ops in common, 2 ids"):
        read(trace, execution_trace=et)


def test_a_trace_without_ids_cannot_be_joined(tmp_path):
    path = write(tmp_path, [op(0, 5, "aten::mm", 1), launch(1, 1), kernel(2, 5, corr=1)])
    with pytest.raises(DataError, match="Record function id"):
        read(path, execution_trace=execution(tmp_path, [node(1)]))


def test_alone_it_says_what_it_lacks(tmp_path, shared_data):
    for path in (execution(tmp_path, [node(1)]),
                 shared_data / "execution_traces" / "linear_et.json.gz",
                 shared_data / "execution_traces" / "feeder_tests_trace.tar.gz"):  # fmt: skip
        with pytest.raises(DataError, match=r"shapes but no times.*--execution-trace"):
            read(path)


def test_a_trace_is_no_execution_trace(trace, tmp_path):
    with pytest.raises(DataError, match="no execution trace"):
        read(trace, execution_trace=write(tmp_path, calls(1, 1), "other.json"))


def test_real_files(shared_data):
    folder = shared_data / "execution_traces"
    linear = read_execution_trace(folder / "linear_et.json.gz")
    # 931 nodes, two of them threads that share no id with an op.
    assert len([n for n in linear.nodes.values() if n.name == "aten::addmm"]) == 21
    assert linear.pid == 24248
    chakra = read_execution_trace(folder / "feeder_tests_trace.tar.gz")
    assert (chakra.schema, chakra.pid) == ("1.0.1", 114598)
    flatten = chakra.nodes[2]
    assert flatten.name.startswith("aten::flatten_dense_tensors")
    assert flatten.inputs[0].startswith(b"[[[64],[64]")


def chakra_node(ident, name, cpu=1):
    io = blob(1, "[[1, 2], 'cuda:0']") + blob(2, "[[64, 128], [128, 256]]") + blob(
        3, "['Tensor(float)', 'Tensor(float)']"
    )  # fmt: skip
    body = number(1, ident) + blob(2, name) + number(3, 4) + blob(8, io)
    body += blob(10, blob(1, "is_cpu_op") + number(27, cpu))
    body += blob(10, blob(1, "rf_id") + number(9, ident))
    return varint(len(body)) + body


def chakra(*nodes):
    meta = blob(2, blob(1, "schema") + blob(29, "1.0.1")) + blob(2, blob(1, "pid") + number(9, 5))
    return varint(len(meta)) + meta + b"".join(nodes)


def test_chakra_gives_the_same_shapes(trace, tmp_path):
    path = tmp_path / "rank.et"
    # Kernels that the linker added are no ops.
    path.write_bytes(chakra(chakra_node(1, "aten::mm"), chakra_node(2, "gemm_kernel", cpu=0)))
    char = read(trace, execution_trace=path)
    assert flops(char) == MM


def test_an_archive_of_one_is_read_and_of_several_refused(tmp_path):
    def archive(name, count):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as tar:
            for i in range(count):
                info = tarfile.TarInfo(f"rank{i}.et")
                content = chakra(chakra_node(1, "aten::mm"))
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        (tmp_path / name).write_bytes(raw.getvalue())
        return tmp_path / name

    assert len(read_execution_trace(archive("one.tar.gz", 1)).nodes) == 1
    with pytest.raises(DataError, match=r"expected one .* found rank0\.et, rank1\.et"):
        read_execution_trace(archive("two.tar.gz", 2))


def test_pairs_are_made_by_rank(tmp_path):
    paths = [tmp_path / n for n in ("rank-0.json", "rank-1.json", "rank-1_et.json")]
    assert pair(paths[:2], paths[2:]) == {paths[1]: paths[2]}
    with pytest.raises(UsageError, match=r"which trace does it belong to"):
        pair(paths[:2], [tmp_path / "et.json"])
    with pytest.raises(UsageError, match=r"no trace of that rank"):
        pair(paths[:2], [tmp_path / "rank-5_et.json"])


def test_a_zipped_file_that_was_cut(tmp_path):
    path = tmp_path / "et.json.gz"
    whole = gzip.compress(json.dumps({"schema": "1.0.1", "nodes": [node(1)] * 500}).encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="truncated"):
        read_execution_trace(path)


PLAIN = json.dumps({"schema": "1.0.1", "nodes": [node(1), node(2, values=("t", "ODD")), node(3)]})


@pytest.mark.parametrize(
    "odd",
    [b"inf", b"-Infinity", b"NaN", b'"\x01"', b'"\xff\xfe"', b'"\\ud800"', b"null"],
)
def test_values_that_strict_json_refuses_cost_no_shape(trace, tmp_path, odd):
    """PyTorch wrote infinite scalars bare, and texts as they were."""
    path = tmp_path / "et.json"
    path.write_bytes(PLAIN.encode().replace(b'"ODD"', odd))
    assert flops(read(trace, execution_trace=path)) == 3 * MM


@pytest.mark.parametrize("odd", [None, 7, {"name": None}, {"rf_id": [], "inputs": "none"}])
def test_an_odd_node_takes_no_other_with_it(trace, tmp_path, odd):
    path = execution(tmp_path, [node(1), odd, node(2), node(3)])
    assert flops(read(trace, execution_trace=path)) == 3 * MM


@pytest.mark.parametrize(
    "packed",
    [
        b"\xef\xbb\xbf" + PLAIN.encode(),
        b"".join(gzip.compress(PLAIN.encode()[i : i + 70]) for i in range(0, len(PLAIN), 70)),
        gzip.compress(PLAIN.encode()[:90]) + bytes(9) + gzip.compress(PLAIN.encode()[90:]) + b"#",
        gzip.compress(b"\xef\xbb\xbf" + PLAIN.encode()),
    ],
    ids=["mark", "members", "padding", "packed mark"],
)
def test_packing_as_programs_write_it(trace, tmp_path, packed):
    path = tmp_path / "et.json"
    path.write_bytes(packed)
    assert flops(read([trace, path])) == 3 * MM


QUIET = settings(max_examples=120,
                 suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
SEEDS = [chakra(*(chakra_node(i, "aten::mm") for i in range(4))),
         json.dumps({"schema": "1.0.1", "nodes": [node(1), node(2)]}).encode()]  # fmt: skip


@QUIET
@given(seed=st.sampled_from(SEEDS), place=st.integers(0, 10_000), change=st.binary(max_size=9))
def test_any_change_is_read_or_refused_in_one_line(trace, tmp_path, seed, place, change):
    place %= len(seed)
    path = tmp_path / "x.et"
    path.write_bytes(seed[:place] + change + seed[place + len(change) :])
    try:
        read([trace, path])
    except CodesignError:
        return


@QUIET
@given(value=st.recursive(st.none() | st.integers() | st.text(max_size=8) | st.booleans(),
                          lambda v: st.lists(v, max_size=4), max_leaves=12))  # fmt: skip
def test_inputs_of_any_form_are_read_or_left_out(trace, tmp_path, value):
    odd = {"name": "aten::mm", "rf_id": 1, "inputs": value if isinstance(value, list) else [],
           "input_shapes": value, "input_types": TYPES}  # fmt: skip
    char = read(trace, execution_trace=execution(tmp_path, [odd]))
    assert flops(char) >= 0
