#pragma once

// A disk whose power can be cut between any two changes, for SQLite and for what the database's opening does by itself
// (fsync, rename, remove: the test's program is linked with --wrap for them). Files stand in a real directory, so
// reading sees everything at once, as an operating system shows it; beside them this class remembers what was synced.
// After a cut each change that was not synced is there, gone, or torn at a sector of 512 bytes; names of files come and
// go in order, and are safe when the directory was synced. Sectors that were not written are never damaged, which is
// what SQLite asks of a disk. A sync may fail as Linux lets it: what it should have written is still read, is perhaps
// not on the disk, and no later sync writes it, unless its page is written anew. A process that is killed leaves
// everything as it is, synced or not. One thread; several disks may stand beside each other.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace trimtab::test {

class PowerCutDisk {
 public:
  enum class Loss { kNothing, kUnsynced };  // a process that was killed, a machine that lost its power

  // `directory` exists and is empty. The first disk becomes SQLite's way to every file of this process.
  explicit PowerCutDisk(std::string directory);
  ~PowerCutDisk();
  PowerCutDisk(const PowerCutDisk&) = delete;
  PowerCutDisk& operator=(const PowerCutDisk&) = delete;

  // In the midst of the change after so many more; everything fails from then on, until come_up().
  void cut_after(std::uint64_t changes) { cut_at_ = changes_ + changes; }
  void cut() { cut_ = true; }
  [[nodiscard]] bool is_cut() const { return cut_; }
  // So many changes find no room, after so many more that do.
  void fill_after(std::uint64_t changes, std::uint64_t count);
  // The syncs among so many changes fail, after so many changes.
  void fail_syncs_after(std::uint64_t changes, std::uint64_t count);
  // No cut, no lack of room and no failing sync that was asked for comes any more.
  void calm() { cut_at_ = full_.from = failing_.from = UINT64_MAX; }
  // Writes, syncs, truncations, new and removed names, since the disk was made.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

  // REQUIRES: nobody has a file open. Leaves what a start would find.
  void come_up(Random& random, Loss loss);

  // The files whose paths begin so, as they are now; and as they were then, safe. REQUIRES: nobody has a file open.
  using Copy = std::map<std::string, std::string>;
  [[nodiscard]] Copy copy(const std::string& prefix) const;
  void set_back(const std::string& prefix, const Copy& copy);

  [[nodiscard]] std::string file(const std::string& name) const { return directory_ + "/" + name; }

  // For the two ways in: SQLite's, and the wrapped calls of the C library. Each says how the change went.
  enum class Outcome { kDone, kCut, kFull, kFailed };
  [[nodiscard]] static PowerCutDisk* of(const std::string& path);
  [[nodiscard]] Outcome write(const std::string& path, std::int64_t offset, std::string bytes);
  [[nodiscard]] Outcome truncate(const std::string& path, std::int64_t size);
  [[nodiscard]] Outcome sync(const std::string& path, bool and_directory);
  [[nodiscard]] Outcome sync_directory();
  [[nodiscard]] Outcome create(const std::string& path);
  [[nodiscard]] Outcome remove(const std::string& path, bool and_sync_directory);
  [[nodiscard]] Outcome rename(const std::string& from, const std::string& to);
  [[nodiscard]] bool has(const std::string& path) const { return names_.back().contains(path); }
  void opened() { ++open_; }
  void closed() { --open_; }

 private:
  struct Change {
    std::int64_t offset = 0;  // of a truncation: the new size
    std::string bytes;
    bool truncates = false;
    bool stranded = false;  // a sync of it has failed; within one page
  };
  struct Content {
    std::string safe;
    std::vector<Change> unsynced;
  };
  using Names = std::map<std::string, std::shared_ptr<Content>>;

  // Of the count of changes.
  struct Stretch {
    std::uint64_t from = UINT64_MAX;
    std::uint64_t until = 0;
    [[nodiscard]] bool has(std::uint64_t change) const { return change >= from && change < until; }
  };

  Outcome begin_change(bool needs_room);
  static void strand(Content& content);
  static void sync_rest(Content& content);
  static void apply(const Change& change, std::string& bytes);
  static void apply_torn(const Change& change, std::string& bytes, Random& random);
  [[nodiscard]] static std::string survivor(const Content& content, Random& random);
  void lose_unsynced(Random& random);
  void lay_out() const;
  Content& content(const std::string& path);

  std::string directory_;
  std::vector<Names> names_;  // as they were after the directory's last sync, then after each change; the last is now
  std::uint64_t changes_ = 0;
  std::uint64_t cut_at_ = UINT64_MAX;
  Stretch full_;
  Stretch failing_;
  bool cut_ = false;
  int open_ = 0;
};

}  // namespace trimtab::test
