"""The notes about a draft that mailhub prepares at a provider for an approved mail."""

from typing import Self

from tools.stored import Stored


class DraftNotes(Stored):
    """The facts about a prepared draft that the next attempt, the lookup and the removal need.

    `marker` is kept before the draft is created: if the answer to its creation is lost, the draft
    is found by its marker. `draft` and `message` are the provider's ids. `source` is the SHA-256 of
    the approved bytes. `version` and `folder` are those of the draft after it was compared.
    `seen_unsent`: a lookup has found the draft unsent.
    """

    marker: str = ""
    draft: str = ""
    message: str = ""
    source: str = ""
    version: str | None = None
    folder: str | None = None
    seen_unsent: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.model_fields_set

    @property
    def is_compared(self) -> bool:
        """Return True if the draft was read back and is the approved mail."""
        return "version" in self.model_fields_set

    def with_version(self, version: str | None, folder: str | None) -> Self:
        """Return the notes about the draft after it was compared."""
        return self.model_copy(update={"version": version, "folder": folder})

    def with_sighting(self) -> Self:
        return self.model_copy(update={"seen_unsent": True})

    def without_sighting(self) -> Self:
        """Return the notes for another attempt: the sighting was about the earlier one."""
        members = self.as_json()
        members.pop("seen_unsent", None)
        return self.from_json(members)
