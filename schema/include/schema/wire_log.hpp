#pragma once

// What protobuf says of bytes that it is given (a line for each text that is not UTF-8) is said for as long as a peer
// sends such frames. By itself it writes to standard error, past every log and its pace.

#include <string>

namespace trimtab {

// From now on, in this process. Call it before anything is parsed; `say` is called on the thread that parses.
void hand_over_protobuf_log(void (*say)(const std::string& line));

}  // namespace trimtab
