#include "schema/storage/storage_watch.hpp"

namespace trimtab {

void StorageWatch::tick() {
  for (Seen& one : all_) {
    DatabaseHealth now = one.look();
    tell(one, now);
    one.health = std::move(now);
  }
}

void StorageWatch::tell(const Seen& before, const DatabaseHealth& now) const {
  const DatabaseHealth& last = before.health;
  if (now.set_apart > last.set_apart) {
    const std::string copy = now.kept_as.empty()
                                 ? "beside it: of those named .damaged the one of the highest number, or .backup"
                                 : now.kept_as;
    say_(false, now.name + " was damaged: what could be read is kept, and what could not is told in its table " +
                    "set_apart (" + std::to_string(now.set_apart) + (now.set_apart == 1 ? " row" : " rows") +
                    "). The file as it was is " + copy);
  }
  if (now.is_log_watched != last.is_log_watched) {
    say_(now.is_log_watched,
         now.name + "-confirmed " +
             (now.is_log_watched
                  ? "is written again: it would be noticed if the log were cut"
                  : "cannot be written: nobody will notice if the log of this database is cut while no daemon runs. It "
                    "must be a file of the daemon's user: see what stands there, and remove it"));
  }
  if (now.unreadable > 0 && last.unreadable == 0) {
    say_(false, now.name +
                    " has rows whose checksum is wrong: they are left out. Start the program again, which sets "
                    "them apart; look for the disk's errors in the kernel's log");
  }
  if (last.is_checking && !now.is_checking && now.unreadable == 0) {
    say_(true, "all " + std::to_string(now.checked_rows) + " rows of " + now.name + " have their checksum");
  }
  if (now.written_back > last.written_back) {
    say_(false, now.name + " was removed while it was open, and has been written back with all that it held");
  }
  if (now.out_of_place != last.out_of_place) {
    say_(now.out_of_place.empty(),
         now.out_of_place.empty() ? now.name + " is where it was again: what waits is stored now" : now.out_of_place);
  }
}

std::string StorageWatch::failure() const {
  for (const Seen& one : all_) {
    if (!one.health.out_of_place.empty()) return one.health.out_of_place;
  }
  return "";
}

}  // namespace trimtab
