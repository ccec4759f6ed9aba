import pytest

from tensorly_smp.fitting import fit_samples
from tensorly_smp.samples import parts


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of a few hundred entries, so that there are several of them."""
    monkeypatch.setattr(parts, "PART_ENTRIES", 800)
    monkeypatch.setattr(fit_samples, "PART_ROWS", 1)
