#include <catch2/catch.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "host/sampler.hpp"

using namespace trimtab;
using namespace trimtab::host;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kLong = 60s;
constexpr Measure kAnswer{"test_answer", "An answer."};

// A source that the test holds and answers for. Shared: a thread that hangs in it may outlive the test.
struct Held {
  std::mutex mutex;
  std::condition_variable changed;
  bool closed = false;  // a read waits until it is opened
  bool inside = false;
  Result<Samples> answer = Samples{{&kAnswer, {}, 42}};

  void close(bool value) {
    const std::scoped_lock lock(mutex);
    closed = value;
    changed.notify_all();
  }
  void set(Result<Samples> value) {
    const std::scoped_lock lock(mutex);
    answer = std::move(value);
  }
  void wait_until_inside() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return inside; });
  }
};

class HeldSource final : public Source {
 public:
  HeldSource(std::string name, std::shared_ptr<Held> held) : name_(std::move(name)), held_(std::move(held)) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Result<Samples> read() override {
    std::unique_lock lock(held_->mutex);
    held_->inside = true;
    held_->changed.notify_all();
    held_->changed.wait(lock, [&] { return !held_->closed; });
    held_->inside = false;
    return held_->answer;
  }

 private:
  const std::string name_;
  const std::shared_ptr<Held> held_;
};

struct Two {
  std::shared_ptr<Held> first = std::make_shared<Held>();
  std::shared_ptr<Held> second = std::make_shared<Held>();
  [[nodiscard]] std::vector<std::unique_ptr<Source>> sources() const {
    std::vector<std::unique_ptr<Source>> all;
    all.push_back(std::make_unique<HeldSource>("first", first));
    all.push_back(std::make_unique<HeldSource>("second", second));
    return all;
  }
};

int count(const Samples& samples, const std::string& name, const std::string& source, double value) {
  int found = 0;
  for (const Sample& sample : samples) {
    const bool same = sample.measure->name == name && sample.value == value &&
                      (source.empty() || (!sample.labels.empty() && sample.labels[0].second == source));
    found += same ? 1 : 0;
  }
  return found;
}

}  // namespace

TEST_CASE("one failing source harms no other, and is told once") {
  const Two two;
  two.second->set(unavailable("no such file"));
  const ManualClock clock;
  Sampler sampler(two.sources(), 1h, clock);
  REQUIRE(sampler.refresh(kLong));
  const Samples samples = sampler.samples();
  CHECK(count(samples, "test_answer", "", 42) == 1);
  CHECK(count(samples, "trimtab_host_source_up", "first", 1) == 1);
  CHECK(count(samples, "trimtab_host_source_up", "second", 0) == 1);
  CHECK(count(samples, "trimtab_host_source_stalled", "second", 0) == 1);
  auto changes = sampler.changes();
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].state == SourceState::kGood);
  CHECK(changes[1].state == SourceState::kFailed);
  CHECK(changes[1].message == "no such file");
  REQUIRE(sampler.refresh(kLong));
  CHECK(sampler.changes().empty());
  CHECK(count(sampler.samples(), "trimtab_host_source_failures_total", "first", 0) == 1);
  two.second->set(Samples{});
  REQUIRE(sampler.refresh(kLong));
  changes = sampler.changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].state == SourceState::kGood);
}

TEST_CASE("a source that hangs is stalled, alone, and its old samples are not given for new ones") {
  const Two two;
  ManualClock clock;
  auto sampler = std::make_unique<Sampler>(two.sources(), 1h, clock);
  REQUIRE(sampler->refresh(kLong));
  CHECK(count(sampler->samples(), "test_answer", "", 42) == 2);
  two.first->close(true);
  CHECK_FALSE(sampler->refresh(1ms));
  two.first->wait_until_inside();
  CHECK(sampler->reports()[0].state == SourceState::kGood);  // it may still answer
  clock.advance(3h + 1s);
  CHECK(sampler->reports()[0].state == SourceState::kStalled);
  CHECK(sampler->reports()[0].message.find("has not come back") != std::string::npos);
  CHECK(sampler->reports()[1].state == SourceState::kGood);
  CHECK(count(sampler->samples(), "test_answer", "", 42) == 1);
  CHECK(count(sampler->samples(), "trimtab_host_source_stalled", "first", 1) == 1);
  SECTION("it may come back") {
    two.first->close(false);
    REQUIRE(sampler->refresh(kLong));
    CHECK(sampler->reports()[0].state == SourceState::kGood);
  }
  SECTION("it may be left behind") {
    sampler.reset();
    two.first->close(false);
  }
}

TEST_CASE("samples of one name stand together") {
  const Two two;
  const ManualClock clock;
  Sampler sampler(two.sources(), 1h, clock);
  REQUIRE(sampler.refresh(kLong));
  const Samples samples = sampler.samples();
  REQUIRE(samples.size() == 10);
  for (std::size_t index = 1; index < samples.size(); ++index) {
    CHECK(std::string(samples[index - 1].measure->name) <= samples[index].measure->name);
  }
}
