#pragma once

// Whose token a node's name belongs to: the first that used it, until the file of tokens gives the name to others. Each
// is stored before its hello is accepted, so that it outlives the coordinator. Event loop's thread only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace trimtab::coordinator {

// Names of one token, where the configuration does not say otherwise.
inline constexpr std::uint32_t kMostNodesOfToken = 256;
// So many times as many names are remembered: more than a thief can keep by staying connected.
inline constexpr std::size_t kTimesRemembered = 16;

class NodeNames {
 public:
  // By the token's name, in order of first use.
  using Stored = std::map<std::string, std::vector<std::string>>;
  // Whether the file of tokens still lets this token have the name.
  using MayHave = std::function<bool(const std::string& owner, const std::string& node)>;
  // Stores all names of a token; where there are none, nothing is kept of it.
  using Keep = std::function<Status(const std::string& owner, const std::vector<std::string>& nodes)>;

  explicit NodeNames(std::size_t most_of_token) : most_of_token_(most_of_token) {}

  // What an earlier coordinator stored, and what to ask from now on. Until then all that is there is kept in memory
  // alone, and no token is gone.
  void know(Stored stored, MayHave may_have, Keep keep);
  // A hello under this name, of this token; "" = none vouches for it. The error is the reason to refuse. Names of
  // members and of jobs are kept. Of the others a token that has too many gives up its newest: those that a thief of it
  // makes up take the place of one another, and of none that was there before.
  [[nodiscard]] Status take(const std::string& node, const std::string& owner,
                            const std::function<bool(const std::string& node)>& is_kept);
  // "" = nobody's. For the log: other tokens are not told.
  [[nodiscard]] std::string owner_of(const std::string& node) const;
  // What tokens may not have any more is nobody's.
  [[nodiscard]] Status release();

 private:
  [[nodiscard]] bool may_have(const std::string& owner, const std::string& node) const {
    return !may_have_ || may_have_(owner, node);
  }
  // Instead of those that it has.
  [[nodiscard]] Status set(const std::string& owner, std::vector<std::string> nodes);

  std::size_t most_of_token_;
  MayHave may_have_;
  Keep keep_;
  Stored names_;
  std::map<std::string, std::string> owners_;  // by node
};

}  // namespace trimtab::coordinator
