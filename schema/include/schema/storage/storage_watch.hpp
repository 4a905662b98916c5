#pragma once

// What a daemon says of its databases: whether each is where the next process looks for it, how often it had to be
// written back, and which rows could not be read and are set apart. Looks on each tick; the log hears of a change once.
// Not thread-safe: the databases' thread.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schema/database.hpp"

namespace trimtab {

class StorageWatch {
 public:
  // One line for the log: whether all is well again, and what.
  using Say = std::function<void(bool well, const std::string& line)>;
  explicit StorageWatch(Say say) : say_(std::move(say)) {}

  // `look`: as Database::look_after(). `name` is what metrics call it: "state", "costs".
  void add(std::string name, std::function<DatabaseHealth()> look) {
    all_.push_back({std::move(name), std::move(look)});
  }
  void tick();

  struct Seen {
    std::string name;
    std::function<DatabaseHealth()> look;
    DatabaseHealth health = {};
  };
  [[nodiscard]] const std::vector<Seen>& all() const { return all_; }
  // What is wrong with the first that stores nothing; empty: all do.
  [[nodiscard]] std::string failure() const;

 private:
  void tell(const Seen& before, const DatabaseHealth& now) const;

  Say say_;
  std::vector<Seen> all_;
};

}  // namespace trimtab
