#pragma once

// What an agent of one device says first.

#include <string>

#include "schema/protocol_version.hpp"
#include "wire/agent.pb.h"

namespace trimtab::test {

[[nodiscard]] inline wire::FromAgent hello_of(const std::string& node, const std::string& instance,
                                              const std::string& fingerprint_json) {
  wire::FromAgent message;
  wire::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(kSpokenVersions.newest);
  hello.set_node(node);
  hello.set_instance(instance);
  hello.set_devices(1);
  hello.set_memory_bytes(1 << 30);
  hello.set_fingerprint_json(fingerprint_json);
  return message;
}

}  // namespace trimtab::test
