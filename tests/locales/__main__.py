"""``python -m tests.locales``: bring the files of all languages up to date."""

from __future__ import annotations

import sys

from django.conf import settings

from tests.locales.catalogues import LANGUAGES, write


def main() -> int:
    """Write the files; 1 where something is not translated yet."""
    # Reading templates asks for settings; none of them matters.
    settings.configure()
    missing = {language: write(language) for language in LANGUAGES}
    for language, texts in missing.items():
        print(f"{language}: {len(texts)} to translate")
        for text in texts:
            print(f"    {text}")
    return 1 if any(missing.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
