from tests.benchmarks.readme_section import BEGIN, END, ROOT, section, write_section


def test_the_readme_says_what_the_results_say():
    """Whoever changes one of them runs `make bench`, or `python -m tests.benchmarks.readme_section`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.partition(BEGIN)[2].partition(END)[0].strip() == section().strip()


def test_only_its_own_place_is_written(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nof before\n{END}\nafter\n")
    write_section(page)
    once = page.read_text()
    write_section(page)

    assert once == page.read_text()
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert "of before" not in once
    assert "recall@1" in once
