"""Pages and files of the site that lie outside ``docs/``: the changelog, examples.

On the site they lie beside those of ``docs/``, and links between them are changed so. What a block
of code says about its test is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

#: File of the project -> page of the site.
_PAGES = {"CHANGELOG.md": "changelog.md"}
_FILES = {page: file for file, page in _PAGES.items()}
_LINK = re.compile(r"(?<=\]\()[^)#:]+|(?<= src=\")[^\":]+|(?<= srcset=\")[^\":]+")
#: The first line of a block of code, and what it says about its test.
_BLOCK = re.compile(r"^( *```.*) test=\"\w+\"", re.M)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, and each file outside ``docs/`` that a page links to."""
    root = Path(config.config_file_path).parent
    for file, page in _PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(root / file)))
    linked = {
        _target(page.src_uri, link)
        for page in files.documentation_pages()
        for link in _LINK.findall(page.content_string)
    }
    for file in sorted(linked - _PAGES.keys()):
        if not file.startswith("docs/") and (root / file).is_file():
            files.append(File.generated(config, file, abs_src_path=str(root / file)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where their files are on the site, and have all blocks of code shown so."""
    here = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        file = _target(here, match[0])
        return relpath(_PAGES.get(file, file.removeprefix("docs/")), dirname(here) or ".")

    return _LINK.sub(moved, _BLOCK.sub(r"\1", markdown))


def _target(page: str, link: str) -> str:
    """The project's file that a link on a page leads to."""
    return normpath(join(dirname(_FILES.get(page, f"docs/{page}")), link))
