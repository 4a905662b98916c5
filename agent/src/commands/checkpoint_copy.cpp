#include "commands/checkpoint_copy.hpp"

#include <utility>

namespace trimtab::agent {

namespace {

constexpr Nanoseconds kLookEvery = std::chrono::seconds(2);

}  // namespace

CheckpointCopy::CheckpointCopy(net::EventLoop& loop, Scratch scratch, std::string source, Handlers handlers)
    : handlers_(std::move(handlers)), looks_(loop.every(kLookEvery, [this] { look(); })) {
  shared_->owner = this;
  thread_ = std::thread([&loop, shared = shared_, scratch = std::move(scratch), source = std::move(source)] {
    const Status status = scratch.copy_checkpoint(source, shared->watch);
    loop.post([shared, status] {
      if (shared->owner != nullptr) shared->owner->ended(status);
    });
  });
}

CheckpointCopy::~CheckpointCopy() {
  shared_->owner = nullptr;
  shared_->watch.cancelled = true;
  thread_.join();
}

void CheckpointCopy::look() {
  if (std::exchange(told_, shared_->watch.bytes.load()) != shared_->watch.bytes) handlers_.moved();
}

void CheckpointCopy::ended(const Status& status) {
  looks_.cancel();
  const auto done = std::move(handlers_.done);
  done(status);
}

}  // namespace trimtab::agent
