#pragma once

// What happens around the recorder: a fork, the end of a thread, the end of the process.

namespace trimtab::inject {

// Once a process, before the first range. False when the process has no pthread key left.
bool watch_process();

}  // namespace trimtab::inject
