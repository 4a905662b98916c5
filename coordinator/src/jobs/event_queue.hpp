#pragma once

// A job's events on their way to its tuning machine. They wait while the job's state cannot be stored, so the queue is
// bounded whatever comes and for however long: news takes the place of the same kind of news of the same rank, node or
// command, and steps beyond a number are dropped. Pure. One owner thread.

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "tuning/event.hpp"

namespace trimtab::coordinator {

class EventQueue {
 public:
  static constexpr std::size_t kMostSteps = 16'384;  // of all ranks together

  // False: it is a step for which there is no room. A step that is missing is one that no trial measures.
  [[nodiscard]] bool push(Event event);
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  [[nodiscard]] std::size_t size() const { return waiting_.size(); }
  // REQUIRES: not empty.
  [[nodiscard]] Event pop();

 private:
  using Key = std::tuple<std::size_t, std::size_t, std::int32_t, std::string>;  // kind, a rank's kind, rank, subject
  struct Waiting {
    Event event;
    std::optional<Key> key;
  };
  [[nodiscard]] static std::optional<Key> key_of(const Event& event);

  std::list<Waiting> waiting_;
  std::map<Key, std::list<Waiting>::iterator> latest_;
  std::size_t steps_ = 0;
};

}  // namespace trimtab::coordinator
