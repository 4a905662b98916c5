#include "daemons/state_lock.hpp"

#include <fcntl.h>

#include "schema/state_directory.hpp"

namespace trimtab::cli {

Result<Descriptor> lock_state(const std::string& directory, const Clock& clock, std::optional<Nanoseconds> patience) {
  TRIMTAB_TRY_STATUS(check_own_state(directory));
  TRIMTAB_TRY_STATUS(make_own_directories(directory, directory));
  TRIMTAB_TRY(Descriptor lock, open_own_file(directory + "/up.lock", O_RDWR | O_CREAT));
  if (!take_lock(lock, clock, patience)) {
    return unavailable("another trimtab is starting or stopping the daemons in " + directory +
                       " and takes longer than this one may wait");
  }
  return lock;
}

}  // namespace trimtab::cli
