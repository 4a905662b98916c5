#include "power_cut_vfs.hpp"

#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string>

#include "power_cut_disk.hpp"

namespace trimtab::test {

namespace {

using Outcome = PowerCutDisk::Outcome;

sqlite3_vfs* system_vfs = nullptr;

// SQLite allocates it, and the file of the system's VFS behind it. `disk` is null for files that are on none.
struct File {
  sqlite3_file base;
  PowerCutDisk* disk;
  std::string* path;
  bool sync_directory;  // with the first sync of a journal or log, also of one that was there

  [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File& of(sqlite3_file* file) {
  return *reinterpret_cast<File*>(file);
}

int status(Outcome outcome, int when_it_fails) {
  return outcome == Outcome::kDone ? SQLITE_OK : outcome == Outcome::kFull ? SQLITE_FULL : when_it_fails;
}

int close_file(sqlite3_file* file) {
  File& mine = of(file);
  const int result = mine.real()->pMethods->xClose(mine.real());
  if (mine.disk != nullptr) mine.disk->closed();
  delete mine.path;
  return result;
}

int read_file(sqlite3_file* file, void* bytes, int count, sqlite3_int64 offset) {
  File& mine = of(file);
  if (mine.disk != nullptr && mine.disk->is_cut()) return SQLITE_IOERR_READ;
  return mine.real()->pMethods->xRead(mine.real(), bytes, count, offset);
}

int write_file(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 offset) {
  File& mine = of(file);
  if (mine.disk != nullptr) {
    const std::string copy(static_cast<const char*>(bytes), static_cast<std::size_t>(count));
    const int result = status(mine.disk->write(*mine.path, offset, copy), SQLITE_IOERR_WRITE);
    if (result != SQLITE_OK) return result;
  }
  return mine.real()->pMethods->xWrite(mine.real(), bytes, count, offset);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  File& mine = of(file);
  if (mine.disk != nullptr) {
    const int result = status(mine.disk->truncate(*mine.path, size), SQLITE_IOERR_TRUNCATE);
    if (result != SQLITE_OK) return result;
  }
  return mine.real()->pMethods->xTruncate(mine.real(), size);
}

// The real file needs no sync: what it holds after a cut is made by the disk.
int sync_file(sqlite3_file* file, int flags) {
  File& mine = of(file);
  if (mine.disk == nullptr) return mine.real()->pMethods->xSync(mine.real(), flags);
  const int result = status(mine.disk->sync(*mine.path, mine.sync_directory), SQLITE_IOERR_FSYNC);
  if (result == SQLITE_OK) mine.sync_directory = false;
  return result;
}

int size_of_file(sqlite3_file* file, sqlite3_int64* size) {
  return of(file).real()->pMethods->xFileSize(of(file).real(), size);
}
int lock_file(sqlite3_file* file, int level) {
  return of(file).real()->pMethods->xLock(of(file).real(), level);
}
int unlock_file(sqlite3_file* file, int level) {
  return of(file).real()->pMethods->xUnlock(of(file).real(), level);
}
int is_reserved(sqlite3_file* file, int* reserved) {
  return of(file).real()->pMethods->xCheckReservedLock(of(file).real(), reserved);
}
int control_file(sqlite3_file* file, int operation, void* argument) {
  return of(file).real()->pMethods->xFileControl(of(file).real(), operation, argument);
}
int sector_size(sqlite3_file* file) {
  return of(file).real()->pMethods->xSectorSize(of(file).real());
}
int characteristics(sqlite3_file* file) {
  return of(file).real()->pMethods->xDeviceCharacteristics(of(file).real());
}
int map_shared(sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
  return of(file).real()->pMethods->xShmMap(of(file).real(), page, size, extend, memory);
}
int lock_shared(sqlite3_file* file, int offset, int count, int flags) {
  return of(file).real()->pMethods->xShmLock(of(file).real(), offset, count, flags);
}
void shared_barrier(sqlite3_file* file) {
  of(file).real()->pMethods->xShmBarrier(of(file).real());
}
int unmap_shared(sqlite3_file* file, int remove) {
  return of(file).real()->pMethods->xShmUnmap(of(file).real(), remove);
}

// Version 2: without memory mapping of the database, whose writes nobody would see.
const sqlite3_io_methods kMethods = {
    2,           close_file,     read_file,    write_file,   truncate_file, sync_file,       size_of_file,
    lock_file,   unlock_file,    is_reserved,  control_file, sector_size,   characteristics, map_shared,
    lock_shared, shared_barrier, unmap_shared, nullptr,      nullptr};

int open_file(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* flags_out) {
  File& mine = *new (file) File{};
  PowerCutDisk* disk = name == nullptr ? nullptr : PowerCutDisk::of(name);
  const bool creates = disk != nullptr && (flags & SQLITE_OPEN_CREATE) != 0 && !disk->has(name);
  if (disk != nullptr && disk->is_cut()) return SQLITE_CANTOPEN;
  if (creates) {
    const int result = status(disk->create(name), SQLITE_CANTOPEN);
    if (result != SQLITE_OK) return result;
  }
  const int result = system_vfs->xOpen(system_vfs, name, mine.real(), flags, flags_out);
  if (result != SQLITE_OK) return result;
  mine.base.pMethods = &kMethods;
  mine.disk = disk;
  if (disk == nullptr) return result;
  disk->opened();
  mine.path = new std::string(name);
  // As SQLite's own. That one does not look whether the directory's sync failed; here such a sync fails.
  constexpr int kLogs = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
  mine.sync_directory = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & kLogs) != 0;
  return result;
}

int delete_file(sqlite3_vfs*, const char* name, int sync_directory) {
  if (PowerCutDisk* disk = PowerCutDisk::of(name); disk != nullptr && disk->has(name)) {
    const int result = status(disk->remove(name, sync_directory != 0), SQLITE_IOERR_DELETE);
    if (result != SQLITE_OK) return result;
  }
  return system_vfs->xDelete(system_vfs, name, 0);
}

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
}

int as_errno(Outcome outcome) {
  if (outcome == Outcome::kDone) return 0;
  errno = outcome == Outcome::kFull ? ENOSPC : EIO;
  return -1;
}

}  // namespace

void use_power_cut_vfs() {
  if (system_vfs != nullptr) return;
  system_vfs = sqlite3_vfs_find(nullptr);
  static sqlite3_vfs mine = *system_vfs;
  mine.szOsFile = static_cast<int>(sizeof(File)) + system_vfs->szOsFile;
  mine.zName = "power-cut";
  mine.pNext = nullptr;
  mine.xOpen = open_file;
  mine.xDelete = delete_file;
  sqlite3_vfs_register(&mine, 1);
}

}  // namespace trimtab::test

// What the program's own code, unlike SQLite's, calls directly.
extern "C" {

int __real_fsync(int descriptor);
int __real_rename(const char* from, const char* to);
int __real_remove(const char* path);

int __wrap_fsync(int descriptor) {
  const std::string path = trimtab::test::path_of(descriptor);
  auto* disk = trimtab::test::PowerCutDisk::of(path);
  if (disk == nullptr) return __real_fsync(descriptor);
  return trimtab::test::as_errno(disk->has(path) ? disk->sync(path, false) : disk->sync_directory());
}

int __wrap_rename(const char* from, const char* to) {
  auto* disk = trimtab::test::PowerCutDisk::of(from);
  if (disk == nullptr) return __real_rename(from, to);
  const int failed = trimtab::test::as_errno(disk->rename(from, to));
  return failed != 0 ? failed : __real_rename(from, to);
}

int __wrap_remove(const char* path) {
  auto* disk = trimtab::test::PowerCutDisk::of(path);
  if (disk == nullptr || !disk->has(path)) return __real_remove(path);
  const int failed = trimtab::test::as_errno(disk->remove(path, false));
  return failed != 0 ? failed : __real_remove(path);
}
}
