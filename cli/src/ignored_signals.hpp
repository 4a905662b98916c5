#pragma once

namespace trimtab::cli {

// What this program ignores all the while, and whether who started it did so, too: a command that it runs gets that.
struct IgnoredSignals {
  bool broken_pipes = false;  // SIGPIPE: a reader that goes away is an error of that write
  bool large_files = false;   // SIGXFSZ: so is a file that grows beyond its limit
};

}  // namespace trimtab::cli
