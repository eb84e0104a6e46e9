"""Trace files: what is saved comes back, what is no trace is refused, and a failed write leaves things as they were."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shapetrace
from shapetrace import Call, FileError, TensorMeta, Trace
from shapetrace.files import encode, write

SMALL = Trace(
    "net",
    "Net",
    sizes={"B": 2},
    calls=(
        Call("module", "", "Net", 0, inputs={"x": TensorMeta((2, 4), (4, 1))}),
        Call("function", "", "relu", 1, {"": "h"}, outputs={"": TensorMeta((2, 4), (4, 1))}),
    ),
)

LINES = (
    '{"shapetrace":1,"target":"net","model":"Net","sizes":{"B":2}}\n',
    '{"kind":"module","path":"","name":"Net","depth":0,"inputs":{"x":{"shape":[2,4],"stride":[4,1]}}}\n',
    '{"kind":"function","path":"","name":"relu","depth":1,"variables":{"":"h"},'
    '"outputs":{"":{"shape":[2,4],"stride":[4,1]}}}\n',
    '{"end":true}\n',
)
HEADER, MODULE, FUNCTION, END = LINES

# --- what is saved comes back -----------------------------------------------------------------------------------------


def test_a_file_is_a_header_then_a_line_a_call_then_an_end(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "net.jsonl")
    assert (tmp_path / "net.jsonl").read_text(encoding="utf-8") == "".join(LINES)


def test_a_file_that_another_program_has_written_anew_is_read(tmp_path: Path) -> None:
    spaced = "".join(json.dumps(json.loads(line)) + "\n" for line in LINES)
    assert spaced != "".join(LINES)
    (tmp_path / "net.jsonl").write_text(spaced, encoding="utf-8")
    assert shapetrace.load(tmp_path / "net.jsonl") == SMALL


def test_a_record_is_not_kept_where_the_name_says_that_it_is_shown(tmp_path: Path) -> None:
    with pytest.raises(FileError) as raised:
        SMALL.save("net.md")
    assert str(raised.value) == (
        "net.md would be taken for Markdown, and a record is kept: name it .jsonl; "
        "str(trace) is the tree, and `shapetrace show FILE.jsonl --output` writes it"
    )
    assert not (tmp_path / "net.md").exists()


counts = st.integers(0, 2**63 - 1)
sizes = st.integers(-1, 2**63 - 1)
several = st.lists(sizes, max_size=6).map(tuple)
words = st.text(max_size=20)
literals = st.sampled_from(["inf", "-inf", "nan", "float('nan')", "None", "'\\n'", "(1, 2,)", "slice(None)"]) | words
tensors = st.builds(
    TensorMeta,
    shape=several,
    stride=st.none() | several,
    dtype=st.sampled_from(["float32", "bfloat16", "int64"]) | words,
    device=words,
    layout=words,
    is_contiguous=st.booleans(),
    offset=counts,
    number=st.none() | counts,
    storage=st.none() | counts,
    name=st.none() | words,
    kind=st.none() | words,
    axes=st.none() | st.lists(words | sizes, max_size=6).map(tuple),
    role=st.none() | words,
)
keyed = st.dictionaries(words, tensors, max_size=3)


@st.composite
def calls(draw: st.DrawFn) -> tuple[Call, ...]:
    drawn: list[Call] = []
    for _ in range(draw(st.integers(0, 4))):
        drawn.append(
            Call(
                kind=draw(st.sampled_from(["module", "function", "op"])),
                path=draw(words),
                name=draw(words),
                depth=draw(st.integers(0, drawn[-1].depth + 1 if drawn else 0)),
                variables=draw(st.dictionaries(words, words, max_size=3)),
                source=draw(st.none() | st.tuples(words, counts)),
                inputs=draw(keyed),
                outputs=draw(keyed),
                literals=draw(st.dictionaries(words, literals, max_size=3)),
                written=draw(st.lists(counts, max_size=3).map(tuple)),
                note=draw(st.none() | words),
                error=draw(st.none() | words),
                role=draw(st.none() | words),
                unmade=draw(keyed),
            )
        )
    return tuple(drawn)


traces = st.builds(
    Trace,
    target=words,
    model=words,
    description=words,
    sizes=st.dictionaries(words, sizes, max_size=3),
    dtype=words,
    device=words,
    torch=st.none() | words,
    seed=st.none() | st.integers(0, 2**64 - 1),
    notes=st.lists(words, max_size=3).map(tuple),
    error=st.none() | words,
    calls=calls(),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that is written over and over."""
    return tmp_path_factory.mktemp("files") / "trace.jsonl"


@given(trace=traces)
def test_what_is_saved_is_what_is_loaded(file: Path, trace: Trace) -> None:
    trace.save(file)
    assert shapetrace.load(file) == trace


@given(trace=traces)
def test_what_is_loaded_is_saved_as_the_same_bytes_with_a_line_for_each_call(file: Path, trace: Trace) -> None:
    trace.save(file)
    before = file.read_bytes()
    shapetrace.load(file).save(file)
    assert file.read_bytes() == before
    assert len(before.splitlines()) == 1 + len(trace.calls) + 1


def test_hangul_is_written_as_it_is_and_what_would_break_a_line_as_escapes(tmp_path: Path) -> None:
    Trace("나는 학생", description='"\n\\').save(tmp_path / "trace.jsonl")
    header, _ = (tmp_path / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    assert header == r'{"shapetrace":1,"target":"나는 학생","description":"\"\n\\"}'


def test_half_a_character_is_written_as_its_escape(tmp_path: Path) -> None:
    """Python has them in the names of files that are no UTF-8, and UTF-8 has none."""
    call = Call("function", "", "relu", 0, source=("/home/\udcff/net.py", 3))
    Trace("net", calls=(call,)).save(tmp_path / "trace.jsonl")
    assert shapetrace.load(tmp_path / "trace.jsonl").calls[0].source == ("/home/\\udcff/net.py", 3)


def test_an_escape_and_its_backslash_stay_apart_from_half_a_character() -> None:
    assert encode(["\\udcff", "\udcff", "나", 1, None]) == b'["\\\\udcff","\\\\udcff","\xeb\x82\x98",1,null]'


@pytest.mark.parametrize("name", ["나는 학생.jsonl", "a b.jsonl", f"{'x' * 249}.jsonl", "\udcff.jsonl"])
def test_a_file_can_have_any_name_that_the_system_takes(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    SMALL.save(path)
    assert shapetrace.load(path) == SMALL


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("".join(LINES).removesuffix("\n"), id="without the last newline"),
        pytest.param("".join(LINES).replace("\n", "\r\n"), id="with the line ends of Windows"),
        pytest.param("\ufeff" + "".join(LINES), id="with the mark of a byte order"),
        pytest.param("".join(LINES).replace(":", " : ").replace(END.replace(":", " : "), END), id="with spaces"),
    ],
)
def test_what_an_editor_does_to_a_file_is_forgiven(tmp_path: Path, content: str) -> None:
    (tmp_path / "net.jsonl").write_bytes(content.encode())
    assert shapetrace.load(tmp_path / "net.jsonl") == SMALL


# --- what is no trace is refused --------------------------------------------------------------------------------------

MAKE_ONE = "`shapetrace run TARGET --output FILE.jsonl` writes a trace file"
AGAIN = "restore the file or record it again"


def refusal(content: bytes | str, folder: Path) -> str:
    """What is said of a file `net.jsonl` with this content."""
    path = folder / "net.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError) as error:
        shapetrace.load(path)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None
    return str(error.value).replace(f"{folder}{os.sep}", "")


NO_HEADER = f"net.jsonl is no trace file: line 1 is no header; {MAKE_ONE}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", f"net.jsonl is empty; {MAKE_ONE}", id="empty"),
        pytest.param("\n", NO_HEADER, id="an empty line"),
        pytest.param("hello\n", NO_HEADER, id="text"),
        pytest.param(b"PK\x03\x04\x00\xff\xfe", NO_HEADER, id="binary"),
        pytest.param('{"a": 1}\n{"a": 2}\n', NO_HEADER, id="foreign JSON"),
        pytest.param("[1, 2]\n", NO_HEADER, id="a list"),
        pytest.param(MODULE + FUNCTION + END, NO_HEADER, id="calls without a header"),
        pytest.param("[" * 100_000 + "\n", NO_HEADER, id="deep lists"),
        pytest.param('{"a":' * 100_000 + "\n", NO_HEADER, id="deep objects"),
        pytest.param('{"shapetrace":"1","target":"net"}\n', NO_HEADER, id="a format in quotes"),
        pytest.param('{"shapetrace":true,"target":"net"}\n', NO_HEADER, id="a format that is no number"),
        pytest.param('{"shapetrace":0,"target":"net"}\n', NO_HEADER, id="a format before the first"),
        pytest.param(
            '{"shapetrace":2,"target":["net"],"new":{}}\n{"future":1}\n',
            "net.jsonl, line 1: its format is 2, and 1 is read here: pip install -U shapetrace",
            id="a newer format",
        ),
        pytest.param(
            '{"shapetrace":1,"target":"net","calls":[]}',
            f"net.jsonl is one JSON object, made for other programs to read; {MAKE_ONE}",
            id="what --format json writes",
        ),
        pytest.param(
            '{"shapetrace":1,"target":"net",}\n',
            f"net.jsonl, line 1: JSON is malformed: trailing comma in object (byte 31); {AGAIN}",
            id="a header that is not JSON",
        ),
        pytest.param(
            '{"shapetrace":1}\n' + END,
            f"net.jsonl, line 1: Object missing required field `target`; {AGAIN}",
            id="a header without a target",
        ),
        pytest.param(
            '{"shapetrace":1,"target":"net","sizes":{"B":"2"}}\n' + END,
            f"net.jsonl, line 1: Expected `int`, got `str` - at `$.sizes[...]`; {AGAIN}",
            id="a header of wrong types",
        ),
        pytest.param(
            '{"shapetrace":1,"target":"net","axes":[]}\n' + END,
            f"net.jsonl, line 1: Object contains unknown field `axes`; {AGAIN}",
            id="a header with a field too many",
        ),
        pytest.param(
            '{"shapetrace":1,"target":"net","seed":' + "9" * 6000 + "}\n" + END,
            f"net.jsonl, line 1: Integer value out of range - at `$[...]`; {AGAIN}",
            id="a header with a number of 6,000 digits",
        ),
        pytest.param(
            '{"shapetrace":1,"x":' + "[" * 100_000 + "\n",
            "net.jsonl, line 1: maximum recursion depth exceeded while deserializing an object; " + AGAIN,
            id="a deep header",
        ),
    ],
)
def test_a_file_without_a_header_is_refused(tmp_path: Path, content: bytes | str, message: str) -> None:
    assert refusal(content, tmp_path) == message


def call(**fields: str) -> str:
    """The line of a call, with some of its fields as they are given, in JSON."""
    known = {"kind": '"function"', "path": '""', "name": '"f"', "depth": "1"}
    return "{" + ",".join(f'"{key}":{value}' for key, value in {**known, **fields}.items()) + "}\n"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        pytest.param("hello\n", "JSON is malformed: invalid character (byte 0)", id="text"),
        pytest.param("<<<<<<< HEAD\n", "JSON is malformed: invalid character (byte 0)", id="a merge"),
        pytest.param("\r\n", "it is empty", id="an empty line"),
        pytest.param("[]\n", "Expected `object`, got `array`", id="a list"),
        pytest.param('{"end":false}\n', "Object contains unknown field `end`", id="no end"),
        pytest.param(HEADER, "Object contains unknown field `shapetrace`", id="another header"),
        pytest.param('{"kind":"op"}\n', "Object missing required field `path`", id="fields missing"),
        pytest.param(call(colour='"red"'), "Object contains unknown field `colour`", id="a field too many"),
        pytest.param(call(kind='"scope"'), "Invalid enum value 'scope' - at `$.kind`", id="a kind too many"),
        pytest.param(call(depth='"1"'), "Expected `int`, got `str` - at `$.depth`", id="a depth in quotes"),
        pytest.param(call(depth="1.5"), "Expected `int`, got `float` - at `$.depth`", id="half a depth"),
        pytest.param(call(depth="NaN"), "JSON is malformed: invalid character (byte 48)", id="a depth of NaN"),
        pytest.param(call(depth="2"), "depth 2 cannot stand here, 0 to 1 can", id="a depth that jumps"),
        pytest.param(call(depth="-1"), "depth -1 cannot stand here, 0 to 1 can", id="a negative depth"),
        pytest.param(call(depth=str(2**70)), f"depth {2**70} cannot stand here, 0 to 1 can", id="a depth of 2^70"),
        pytest.param(
            call(outputs='{"":{"shape":[-2]}}'),
            "Expected `int` >= -1 - at `$.outputs[...].shape[0]`",
            id="a negative size",
        ),
        pytest.param(
            call(outputs='{"":{"shape":[9223372036854775808]}}'),
            "Expected `int` <= 9223372036854775807 - at `$.outputs[...].shape[0]`",
            id="a size beyond 64 bits",
        ),
        pytest.param(
            call(outputs='{"":{"shape":[2],"offset":-1}}'),
            "Expected `int` >= 0 - at `$.outputs[...].offset`",
            id="a negative offset",
        ),
        pytest.param(
            call(outputs='{"":{"shape":[2],"number":"7"}}'),
            "Expected `int | null`, got `str` - at `$.outputs[...].number`",
            id="a number in quotes",
        ),
        pytest.param(
            call(outputs='{"":{"shape":[2],"colour":"red"}}'),
            "Object contains unknown field `colour` - at `$.outputs[...]`",
            id="a field too many of a tensor",
        ),
        pytest.param(call(source='["net.py"]'), "Expected `array` of length 2 - at `$.source`", id="half a source"),
        pytest.param(
            call(note="[" * 100_000), "Expected `str | null`, got `array` - at `$.note`", id="a note of deep lists"
        ),
        pytest.param(
            call(**{"\x1b[31m\u202e": "1"}), r"JSON is malformed: invalid character (byte 51)", id="a raw escape code"
        ),
        pytest.param(
            call(**{r"\u001b[31m": "1"}), r"Object contains unknown field `\x1b[31m`", id="a code for the terminal"
        ),
        pytest.param(
            call(outputs=f'{{"":{{"shape":[2],"axes":["{"B·" * 10_000}B"]}}}}'),
            "Expected `str` of length <= 100 - at `$.outputs[...].axes[0]`",
            id="an axis that would take hours to evaluate",
        ),
        pytest.param(call()[:-1] + call(), "JSON is malformed: trailing characters (byte 51)", id="two calls"),
    ],
)
def test_a_line_that_is_no_call_is_refused(tmp_path: Path, line: str, what: str) -> None:
    assert refusal(HEADER + MODULE + line + END, tmp_path) == f"net.jsonl, line 3: {what}; {AGAIN}"


def test_of_what_is_wrong_no_more_is_said_than_a_reader_takes_in(tmp_path: Path) -> None:
    said = refusal(HEADER + MODULE + call(kind=f'"{"s" * 10**6}"') + END, tmp_path)
    wrong = f"Invalid enum value '{'s' * 280}… (1000035 characters)"
    assert said == f"net.jsonl, line 3: {wrong}; {AGAIN}"


def test_invalid_utf_8_is_refused(tmp_path: Path) -> None:
    line = call(note='"\xff"').encode("latin-1")
    said = refusal((HEADER + MODULE).encode() + line + END.encode(), tmp_path)
    assert said == f"net.jsonl, line 3: Invalid UTF-8 encoded string; {AGAIN}"


def test_the_first_call_runs_inside_of_nothing(tmp_path: Path) -> None:
    said = refusal(HEADER + call() + END, tmp_path)
    assert said == f"net.jsonl, line 2: depth 1 cannot stand here, 0 can; {AGAIN}"


WHOLE = "".join(LINES).encode()


def test_a_file_that_is_cut_short_anywhere_is_refused_as_that(tmp_path: Path) -> None:
    for end in range(1, len(WHOLE) - 1):  # without its last newline it is still whole
        *before, last = WHOLE[:end].decode().splitlines()
        line = len(before) + 1
        at = f'it ends after line {line}, without the last, {{"end":true}}'
        what = at if f"{last}\n" in LINES else f"line {line} is not whole"
        assert refusal(WHOLE[:end], tmp_path) == f"net.jsonl is cut short: {what}; record it again"


@pytest.mark.parametrize(
    "rest", [HEADER, MODULE, END, "\n", "x", "\x00"], ids=["header", "call", "end", "newline", "x", "zero"]
)
def test_what_follows_the_end_is_refused(tmp_path: Path, rest: str) -> None:
    said = refusal("".join(LINES) + rest, tmp_path)
    assert said == "net.jsonl, line 5: the trace ended above; a file holds no more than one"


def is_trace_or_refused(file: Path, content: bytes) -> bool:
    file.write_bytes(content)
    try:
        return isinstance(shapetrace.load(file), Trace)
    except FileError as error:
        return str(error).isprintable() and str(error).startswith(str(file))


def test_of_a_line_without_end_no_more_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shapetrace.files.LONGEST", 1000)
    said = refusal(HEADER + MODULE + call(note=f'"{"x" * 2000}"') + END, tmp_path)
    assert said == "net.jsonl, line 3: it has more than 1000 bytes, which no call has; record it again"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no file without end")
def test_of_a_file_without_end_no_more_is_read() -> None:
    assert unreadable("/dev/zero").startswith("/dev/zero is no trace file: line 1 is no header")


@given(content=st.binary())
def test_whatever_bytes_a_file_holds_it_is_a_trace_or_refused(file: Path, content: bytes) -> None:
    assert is_trace_or_refused(file, content)


@given(at=st.integers(0, len(WHOLE)), length=st.integers(0, 3), put=st.binary(max_size=3) | st.text(max_size=3))
def test_wherever_a_file_is_damaged_it_is_a_trace_or_refused(
    file: Path, at: int, length: int, put: bytes | str
) -> None:
    put = put if isinstance(put, bytes) else put.encode()
    assert is_trace_or_refused(file, WHOLE[:at] + put + WHOLE[at + length :])


# --- what cannot be read ----------------------------------------------------------------------------------------------


def unreadable(path: Path | str) -> str:
    with pytest.raises(FileError) as error:
        shapetrace.load(path)
    return str(error.value)


def test_a_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "gone.jsonl"
    assert unreadable(path) == f"{path} cannot be read: No such file or directory"


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    assert unreadable(tmp_path) == f"{tmp_path} cannot be read: it is a folder; name a file in it"


def test_the_name_of_a_file_is_shown_without_what_a_terminal_would_obey() -> None:
    assert unreadable("\x1b[31m나\n\udcff") == r"\x1b[31m나\n\udcff cannot be read: No such file or directory"


# --- what is written, and what is left when it cannot be --------------------------------------------------------------


def unwritten(path: Path) -> str:
    with pytest.raises(FileError) as error:
        SMALL.save(path)
    return str(error.value)


def test_a_new_file_is_as_open_as_others_that_the_user_makes(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        SMALL.save(tmp_path / "net.jsonl")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "net.jsonl").stat().st_mode) == 0o640  # 0o666 without 0o027


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755])
def test_a_file_that_is_written_again_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    (tmp_path / "net.jsonl").touch()
    (tmp_path / "net.jsonl").chmod(mode)
    SMALL.save(tmp_path / "net.jsonl")
    assert stat.S_IMODE((tmp_path / "net.jsonl").stat().st_mode) == mode


def test_nothing_is_left_beside_a_file_that_is_written(tmp_path: Path) -> None:
    for _ in range(2):
        SMALL.save(tmp_path / "net.jsonl")
    assert os.listdir(tmp_path) == ["net.jsonl"]


def test_what_was_left_of_a_file_that_was_being_written_is_removed_once_it_is_old(tmp_path: Path) -> None:
    old, young, other = (tmp_path / f".{name}" for name in ("net.jsonl.shapetrace-1", "net.jsonl.shapetrace-2", "x"))
    for file in (old, young, other):
        file.write_text("half")
    for file in (old, other):
        os.utime(file, (0, 0))
    SMALL.save(tmp_path / "net.jsonl")
    assert sorted(os.listdir(tmp_path)) == [".net.jsonl.shapetrace-2", ".x", "net.jsonl"]


def test_of_a_file_that_is_cut_short_no_call_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.jsonl"
    path.write_text("".join([HEADER, *[MODULE] * 100_000]))
    tracemalloc.start()
    with pytest.raises(FileError, match="is cut short: it ends after line 100001, without the last"):
        shapetrace.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_a_link_and_the_file_it_points_to_is_written(tmp_path: Path, is_there: bool) -> None:
    (tmp_path / "runs").mkdir()
    if is_there:
        (tmp_path / "runs/first.jsonl").write_text("old")
    link = tmp_path / "last.jsonl"
    link.symlink_to("runs/first.jsonl")
    SMALL.save(link)
    assert os.readlink(link) == "runs/first.jsonl"
    assert shapetrace.load(tmp_path / "runs/first.jsonl") == SMALL


def test_a_link_to_itself_is_refused_and_stays(tmp_path: Path) -> None:
    link = tmp_path / "loop.jsonl"
    link.symlink_to("loop.jsonl")
    assert unwritten(link) == f"{link} cannot be written: {os.strerror(errno.ELOOP)}"
    assert os.listdir(tmp_path) == ["loop.jsonl"]
    assert os.readlink(link) == "loop.jsonl"


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    assert unwritten(tmp_path) == f"{tmp_path} cannot be written: it is a folder; name a file in it"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("folder", ["gone", "file"])
def test_a_folder_that_is_not_there_is_named(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / folder / "net.jsonl"
    assert unwritten(path) == f"{path} cannot be written: there is no folder {tmp_path / folder}"
    assert os.listdir(tmp_path) == ["file"]


def test_a_trace_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "net.jsonl"
    path.write_text("old")
    trace = Trace("net", calls=(Call("module", "", "Net", 0), Call("function", "", "relu", 2)))
    with pytest.raises(FileError) as error:
        trace.save(path)
    assert str(error.value) == f"{path} cannot be written: call 1, relu: depth 2 cannot stand here, 0 to 1 can"
    assert path.read_text() == "old"


def run(script: str, *arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """What Python prints when it runs `script` after these imports."""
    imports = "import os, resource, sys\nimport shapetrace\nfrom shapetrace import FileError, Trace\n"
    command = [sys.executable, "-c", imports + script, *map(str, arguments)]
    return subprocess.run(command, check=True, text=True, **{"stdout": subprocess.PIPE, **options})


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_who_is_killed_while_writing_leaves_the_old_file(tmp_path: Path, step: str) -> None:
    path = tmp_path / "net.jsonl"
    path.write_text("old")
    code = (
        f"import os, signal; os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from shapetrace.files import write; import sys; write(sys.argv[1], b'new' * 100_000)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)])
    assert (done.returncode, path.read_text()) == (-signal.SIGKILL, "old")


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "net.jsonl"
    SMALL.save(path)
    done = run(
        """
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    Trace("net", description="x" * 100_000).save(sys.argv[1])
except FileError as error:
    print(error)
""",
        path,
    )
    assert done.stdout == f"{path} cannot be written: File too large\n"
    assert os.listdir(tmp_path) == ["net.jsonl"]
    assert shapetrace.load(path) == SMALL


AS_NOBODY = """
if os.getuid() == 0:  # whom nothing is forbidden
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    Trace("net").save(sys.argv[1])
except FileError as error:
    print(error)
"""


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o555, 0o666), (0o777, 0o444)])
def test_what_may_not_be_written_is_left_as_it_was(folder_mode: int, file_mode: int) -> None:
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is closed to others
        path = Path(folder, "net.jsonl")
        SMALL.save(path)
        path.chmod(file_mode)
        Path(folder).chmod(folder_mode)
        assert run(AS_NOBODY, path).stdout == f"{path} cannot be written: Permission denied\n"
        assert os.listdir(folder) == ["net.jsonl"]
        assert shapetrace.load(path) == SMALL
        Path(folder).chmod(0o700)


# --- pipes and what the shell has opened ------------------------------------------------------------------------------


def test_a_trace_goes_through_a_pipe_that_has_a_name(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=SMALL.save, args=[pipe])
    writer.start()
    assert shapetrace.load(pipe) == SMALL
    writer.join()
    assert os.listdir(tmp_path) == ["pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("stdout", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_trace_goes_to_stdout(stdout: str) -> None:
    assert run("Trace('net').save(sys.argv[1])", stdout).stdout == '{"shapetrace":1,"target":"net"}\n{"end":true}\n'


def test_a_trace_comes_from_stdin() -> None:
    done = run("print(len(shapetrace.load('/dev/stdin').calls))", input="".join(LINES))
    assert done.stdout == "2\n"


def test_stdout_that_is_appended_to_a_file_keeps_what_the_file_held(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("a") as log:
        run("Trace('net').save('/dev/stdout'); print('after')", stdout=log)
    assert path.read_text() == 'before\n{"shapetrace":1,"target":"net"}\n{"end":true}\nafter\n'


def test_a_pipe_that_nobody_reads_to_its_end_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as stdout:
        run("Trace('net', description='x' * 100_000).save('/dev/stdout')", stdout=stdout)


def test_a_device_takes_anything() -> None:
    write("/dev/null", b"x")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_device_that_is_full_is_refused() -> None:
    assert unwritten(Path("/dev/full")) == "/dev/full cannot be written: No space left on device"


def test_what_a_terminal_would_obey_is_escaped_in_json_too() -> None:
    text = "B \u009b31m \u202e 주의 \U000e0001"
    assert encode(text) == rb'"B \u009b31m \u202e ' + "주의".encode() + rb' \udb40\udc01"'
    assert json.loads(encode(text)) == text
