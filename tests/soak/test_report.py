"""Tables and pictures of runs, from their files: also of one that was killed, or that another machine has made."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.soak.picture import picture
from tests.soak.report import BEGIN, COLUMNS, END, faults_table, put_into, reports_in, table
from tests.soak.samples import ProcessSample, RunFolder, Sample, disk_bytes, quantiles_ms, sample_process

MB = 1 << 20


def a_sample(number: int) -> Sample:
    process = ProcessSample(pid=7, memory=(60 + number) * MB, descriptors=50, threads=4, cpu_s=number * 2.0)
    return Sample(
        at=1_000.0 + number * 10,
        elapsed_s=number * 10.0,
        acknowledged=number * 300,
        deliveries=number * 600,
        duplicates=2,
        dead=1,
        outstanding=3,
        oldest_s=1.5,
        late=0,
        one_copy=0,
        failed=0,
        unknown=4,
        faults=1,
        problems=0,
        send_ms=(5.0, 20.0, 4_000.0),
        wait_ms=(1.0, 2.0, 3.0),
        remembered=100,
        processes={"clients": process, "member-0": process},
        disk={"member-0": 5 * MB},
    )


def a_run(folder: Path, name: str, *, is_over: bool = True, samples: int = 20) -> None:
    run = RunFolder(folder / name)
    run.write_event("begin", plan="1 h, 30 messages/s, etcd", seed=1)
    for number in range(1, samples + 1):
        run.write_sample(a_sample(number))
    run.write_event("fault", name="master killed", took_s=9.0, longest_gap_s=4.5)
    if is_over:
        run.write_event("problem", text="LOST: plain a for billing, acknowledged 400 s ago")
        run.write_event("end", problems=[])


def test_a_row_says_what_the_last_sample_says_and_what_was_lost(tmp_path: Path) -> None:
    a_run(tmp_path, "20261117-124423")
    row = dict(zip(COLUMNS, reports_in(tmp_path)[0].row(), strict=True))
    assert row["run (UTC)"] == "2026-11-17 12:44:23" and row["lease store"] == "etcd"
    assert row["acknowledged"] == "6,000" and row["lost"] == "1" and row["problems"] == "1"
    assert row["CPU, % of a core"] == "19"  # 38 s of 200: the first sample is the begin


def test_a_run_that_was_killed_has_its_row_and_a_torn_line_counts_for_nothing(tmp_path: Path) -> None:
    a_run(tmp_path, "20261117-124423", is_over=False)
    with (tmp_path / "20261117-124423" / "samples.jsonl").open("ab") as file:
        file.write(b'{"at": 1')
    assert reports_in(tmp_path)[0].row()[0] == "2026-11-17 12:44:23, not over"


def test_runs_add_up_in_the_page_and_those_of_other_machines_stay(tmp_path: Path) -> None:
    page = f"before\n\n{BEGIN}\n\n{END}\n\nafter\n"
    a_run(tmp_path / "one", "20261117-100000")
    a_run(tmp_path / "two", "20261118-100000", is_over=False)
    page = put_into(put_into(page, reports_in(tmp_path / "one")), reports_in(tmp_path / "two"))
    assert "| 2026-11-17 10:00:00 |" in page and "| 2026-11-18 10:00:00, not over |" in page
    assert page.startswith("before\n") and page.endswith("after\n")
    RunFolder(tmp_path / "two" / "20261118-100000").write_event("end", problems=[])
    page = put_into(page, reports_in(tmp_path / "two"))
    assert page.count("2026-11-18 10:00:00") == 1 and "not over" not in page
    assert "| master killed | 1 | 4.5 / 4.5 |" in page


def test_a_page_without_a_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no place for the table"):
        put_into("nothing", [])


def test_the_page_of_the_project_has_the_place(tmp_path: Path) -> None:
    a_run(tmp_path, "20261117-124423")
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    assert "| 2026-11-17 12:44:23 |" in put_into(page, reports_in(tmp_path))


def test_the_picture_is_one_document_with_a_line_for_each_process_and_run(tmp_path: Path) -> None:
    a_run(tmp_path, "20261117-100000", samples=500)
    a_run(tmp_path, "20261117-120000")
    root = ElementTree.fromstring(picture(reports_in(tmp_path)))
    lines = root.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * (2 + 2 + 2 + 2 + 1), "two runs: memory and descriptors of two, two times, two slow, a disk"
    assert max(len(line.attrib["points"].split()) for line in lines) <= 240
    assert "UTC" not in picture(reports_in(tmp_path))


def test_tables_of_no_faults_and_of_no_runs(tmp_path: Path) -> None:
    assert reports_in(tmp_path / "nothing") == []
    assert table([]).count("\n") == 1 and faults_table([]).count("\n") == 1


def test_this_process_is_sampled_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    import os

    found = sample_process(os.getpid())
    assert found is not None and found.memory > found.private > MB and found.descriptors > 2 and found.threads >= 1
    assert sample_process(1 << 22) is None
    (tmp_path / "file").write_bytes(b"x" * 10_000)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert 8_192 <= disk_bytes(tmp_path) < MB
    assert quantiles_ms([]) == (0.0, 0.0, 0.0)
    assert quantiles_ms([0.001] * 98 + [0.5, 2.0]) == (1.0, 2000.0, 2000.0)
