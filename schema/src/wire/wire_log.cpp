#include "schema/wire_log.hpp"

#include <google/protobuf/stubs/logging.h>

namespace trimtab {
namespace {

void (*g_say)(const std::string& line) = nullptr;

void pass_on(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  g_say("protobuf: " + message);
}

}  // namespace

void hand_over_protobuf_log(void (*say)(const std::string& line)) {
  g_say = say;
  google::protobuf::SetLogHandler(&pass_on);
}

}  // namespace trimtab
