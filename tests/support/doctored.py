"""Rows for `bert_mgpu doctor data`, and the problems that it prints."""

LONG = "the film is a joy from its first minute on"
SUBJECTS = ("film", "hotel", "phone", "book", "meal", "song", "game", "shirt")
ENDS = ("and so do all of my friends", "though it was not cheap at all")


def sound(count, start=0):
    """Lines of texts that are all different, and two labels."""
    return [
        f"{start + n} times I saw this {SUBJECTS[n % 8]} {ENDS[n % 2]}\t{'ab'[n % 2]}"
        for n in range(count)
    ]


def problems(out):
    return [line[2:] for line in out.splitlines() if line.startswith("- ")]
