#pragma once

// A machine with a PowerCutDisk, of a seed: how long it runs until its power goes, whether its disk is full or does not
// sync for a while, and whether it was only the program that was killed.

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "../damaged_file.hpp"
#include "../schema/sample_costs.hpp"
#include "power_cut_disk.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

class Machine {
 public:
  explicit Machine(Random& random) : random_(random), disk(directory_.path()) {}

  // Until the next end, which is at most so many changes of the disk away.
  void prepare_end(std::uint64_t changes) {
    calm();
    disk.cut_after(random_.below(changes));
    full_ = random_.below(4) == 0;
    if (full_) disk.fill_after(random_.below(changes), 1 + random_.below(40));
    failing_ = random_.below(4) == 0;
    if (failing_) disk.fail_syncs_after(random_.below(changes), 1 + random_.below(40));
  }
  // The process is gone, and the disk holds what it holds then. Whether the machine's power went with it.
  PowerCutDisk::Loss come_up() {
    const auto loss = random_.below(3) == 0 ? PowerCutDisk::Loss::kNothing : PowerCutDisk::Loss::kUnsynced;
    disk.come_up(random_, loss);
    full_ = failing_ = false;
    return loss;
  }
  // Somebody removes databases whose names begin so, or a part of them, while they are open. Not beside another fault:
  // what a machine whose power goes right then had in a removed file is gone.
  bool remove_open(const std::vector<std::string>& names) {
    if (may_fail()) return false;
    calm();
    const std::vector<std::vector<const char*>> choices = {{"", "-wal", "-shm"}, {""}};
    const auto& ends = choices[random_.below(choices.size())];
    for (const std::string& name : names) {
      for (const char* end : ends) std::remove(disk.file(name + end).c_str());
    }
    return true;
  }
  // The disk flips a bit of a database, in any page but the first and where something stands. False where there is no
  // other. REQUIRES: nobody has it open.
  bool flip_bit_of(const std::string& name) {
    PowerCutDisk::Copy files = disk.copy(disk.file(name));
    const auto database = files.find(disk.file(name));
    if (database == files.end() || database->second.size() <= kDatabasePage) return false;
    for (int tries = 0; tries < 30; ++tries) {
      std::string flipped = database->second;
      const bool is_used = database->second[flip_bit(flipped, random_, kDatabasePage).place] != 0;
      if (is_used) database->second = std::move(flipped);
      if (is_used) break;
    }
    disk.set_back(disk.file(name), files);
    met("flipped bit");
    return true;
  }
  // Nothing fails from now on.
  void calm() {
    disk.calm();
    full_ = failing_ = false;
  }
  // Whether something may fail by now.
  [[nodiscard]] bool may_fail() const { return full_ || failing_ || disk.is_cut(); }
  // Whether what failed may be there after a start all the same.
  [[nodiscard]] bool may_have_stored() const { return failing_ || disk.is_cut(); }

 private:
  Random& random_;
  TemporaryDirectory directory_;
  bool full_ = false;
  bool failing_ = false;

 public:
  PowerCutDisk disk;
};

}  // namespace trimtab::test
