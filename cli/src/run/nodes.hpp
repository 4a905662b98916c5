#pragma once

// What the keeper of a node does where several nodes are up together: the first founds the folder's authority and tells
// where its coordinator is, the others wait for that and join it. Blocking.

#include "daemons/embedded.hpp"

namespace trimtab::cli {

struct NodeUp {
  UpOptions options;   // without `shared`, which is found in the folder
  std::string folder;  // the shared one
  std::string node;
  std::string job;  // of the first node: what the others are told
  bool first = false;
};

// As keep_daemons().
[[nodiscard]] Status keep_node(NodeUp node, const Clock& clock);

}  // namespace trimtab::cli
