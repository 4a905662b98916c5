#include "link_probe.hpp"

#include <bit>
#include <cstring>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "probe_proof.hpp"

namespace trimtab::agent {

namespace {

// A request: what to do and with how many bytes, both little-endian. Each is answered by one byte when its bytes have
// arrived, before it where they come from here.
enum class Ask : std::uint64_t { kRoundTrip = 1, kTake = 2, kGive = 3 };
struct Request {
  std::uint64_t ask = 0;
  std::uint64_t bytes = 0;
};
static_assert(std::endian::native == std::endian::little, "requests go over the wire as they lie in memory");

constexpr Nanoseconds kGreeting = std::chrono::seconds(1);
constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr int kMostRequests = 1000;

// Bytes through one socket, with a buffer that is used again and again.
class Mover {
 public:
  Mover(const ProbeSocket& socket, const ProbeWait& wait) : socket_(socket), wait_(wait), buffer_(kBuffer) {}

  Status send(std::uint64_t bytes) {
    while (bytes > 0) {
      const std::size_t part = std::min<std::uint64_t>(bytes, buffer_.size());
      TRIMTAB_TRY_STATUS(socket_.send({buffer_.data(), part}, wait_));
      bytes -= part;
    }
    return {};
  }
  Status receive(std::uint64_t bytes) {
    while (bytes > 0) {
      const std::size_t part = std::min<std::uint64_t>(bytes, buffer_.size());
      TRIMTAB_TRY_STATUS(socket_.receive({buffer_.data(), part}, wait_));
      bytes -= part;
    }
    return {};
  }
  Status acknowledge() { return send(1); }
  Status acknowledged() { return receive(1); }

 private:
  const ProbeSocket& socket_;
  const ProbeWait& wait_;
  std::vector<std::byte> buffer_;
};

class Asking final : public LinkSides {
 public:
  Asking(const ProbeSocket& socket, const ProbeWait& wait) : socket_(socket), wait_(wait), mover_(socket, wait) {}

  Status round_trip() override {
    TRIMTAB_TRY_STATUS(ask(Ask::kRoundTrip, 0));
    return mover_.acknowledged();
  }
  Status send(Bytes bytes) override {
    TRIMTAB_TRY_STATUS(ask(Ask::kTake, static_cast<std::uint64_t>(bytes)));
    TRIMTAB_TRY_STATUS(mover_.send(static_cast<std::uint64_t>(bytes)));
    return mover_.acknowledged();
  }
  Status fetch(Bytes bytes) override {
    TRIMTAB_TRY_STATUS(ask(Ask::kGive, static_cast<std::uint64_t>(bytes)));
    TRIMTAB_TRY_STATUS(mover_.acknowledged());
    return mover_.receive(static_cast<std::uint64_t>(bytes));
  }

 private:
  Status ask(Ask what, std::uint64_t bytes) {
    const Request request{static_cast<std::uint64_t>(what), bytes};
    return socket_.send(std::as_bytes(std::span(&request, 1)), wait_);
  }

  const ProbeSocket& socket_;
  const ProbeWait& wait_;
  Mover mover_;
};

Status answer(Mover& mover, const Request& request) {
  switch (static_cast<Ask>(request.ask)) {
    case Ask::kRoundTrip:
      return mover.acknowledge();
    case Ask::kTake:
      TRIMTAB_TRY_STATUS(mover.receive(request.bytes));
      return mover.acknowledge();
    case Ask::kGive:
      TRIMTAB_TRY_STATUS(mover.acknowledge());
      return mover.send(request.bytes);
  }
  return bad_input("a link's probe was asked for something that it does not know");
}

Status serve_peer(const ProbeSocket& peer, const std::string& token, const LinkBudget& budget, const ProbeWait& wait) {
  const ProbeWait greeting{wait.clock, wait.clock.monotonic() + wait.left(kGreeting), wait.cancelled};
  TRIMTAB_TRY(const ProbeChallenge challenge, new_challenge());
  TRIMTAB_TRY_STATUS(peer.send(challenge, greeting));
  ProbeProof shown{};
  TRIMTAB_TRY_STATUS(peer.receive(shown, greeting));
  if (!same(proof_of(token, challenge), shown)) {
    return bad_input("a connection to a link's probe did not show that it knows the probe's token");
  }
  Mover mover(peer, wait);
  TRIMTAB_TRY_STATUS(mover.acknowledge());
  const auto most = static_cast<std::uint64_t>(budget.bytes);
  std::uint64_t moved = 0;
  for (int i = 0; i < kMostRequests; ++i) {
    Request request;
    TRIMTAB_TRY_STATUS(peer.receive(std::as_writable_bytes(std::span(&request, 1)), wait));
    if (request.bytes > most - moved) return bad_input("a link's probe was asked to move more than its budget");
    moved += request.bytes;
    TRIMTAB_TRY_STATUS(answer(mover, request));
  }
  return {};
}

}  // namespace

Status rest_for(Nanoseconds time, const ProbeWait& wait) {
  constexpr Nanoseconds kLook = std::chrono::milliseconds(20);
  const Nanoseconds end = wait.clock.monotonic() + time;
  while (true) {
    TRIMTAB_TRY_STATUS(wait.check("leaving the link to the job"));
    const Nanoseconds left = end - wait.clock.monotonic();
    if (left.count() <= 0) return {};
    std::this_thread::sleep_for(std::min(left, kLook));
  }
}

Status serve_link(const ProbeSocket& listening, const std::string& token, const LinkBudget& budget,
                  const ProbeWait& wait) {
  while (true) {
    TRIMTAB_TRY(const ProbeSocket peer, listening.accept(wait));
    (void)serve_peer(peer, token, budget, wait);  // what this one did wrong must not keep the next one away
  }
}

Result<LinkSpeed> probe_link(const std::string& address, std::uint16_t port, const std::string& token,
                             const LinkBudget& budget, const ProbeWait& wait) {
  TRIMTAB_ASSERT(token.size() == kProbeTokenBytes, "a probe's token was checked when the probe began");
  TRIMTAB_TRY(const ProbeSocket socket, ProbeSocket::connect(address, port, wait));
  ProbeChallenge challenge{};
  TRIMTAB_TRY_STATUS(socket.receive(challenge, wait));
  TRIMTAB_TRY_STATUS(socket.send(proof_of(token, challenge), wait));
  Asking sides(socket, wait);
  std::byte welcome{};
  TRIMTAB_TRY_STATUS(socket.receive({&welcome, 1}, wait));
  return measure_link(sides, budget, wait.clock, [&wait](Nanoseconds time) { return rest_for(time, wait); });
}

}  // namespace trimtab::agent
