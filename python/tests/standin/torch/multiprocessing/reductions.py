"""Whether a storage is there."""

import weakref


class StorageWeakRef:
    def __init__(self, storage):
        self._base = weakref.ref(storage.base)

    def expired(self):
        return self._base() is None
