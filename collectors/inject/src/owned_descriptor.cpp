#include "owned_descriptor.hpp"

#include <sys/stat.h>
#include <unistd.h>

namespace trimtab::inject {

OwnedDescriptor OwnedDescriptor::adopt(int descriptor) {
  OwnedDescriptor owned;
  struct stat status {};
  if (descriptor < 0 || fstat(descriptor, &status) != 0) return owned;
  owned.descriptor_ = descriptor;
  owned.device_ = status.st_dev;
  owned.inode_ = status.st_ino;
  return owned;
}

int OwnedDescriptor::get() const {
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) return -1;
  return status.st_dev == device_ && status.st_ino == inode_ ? descriptor_ : -1;
}

void OwnedDescriptor::close() {
  const int descriptor = get();
  if (descriptor >= 0) ::close(descriptor);
  descriptor_ = -1;
}

}  // namespace trimtab::inject
