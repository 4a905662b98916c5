#include "probes/link_conversation.hpp"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <bit>
#include <thread>

#include "base/check.hpp"

namespace trimtab::agent {

namespace {

// A request: what to do and with how many bytes, both little-endian. Each is answered by one byte when its bytes have
// arrived, before it where they come from here; what the last transfer's side carried, by an Answer.
enum class Ask : std::uint64_t { kRoundTrip = 1, kTake = 2, kGive = 3, kCarried = 4 };
struct Request {
  std::uint64_t ask = 0;
  std::uint64_t bytes = 0;
};
struct Answer {
  std::uint64_t own = 0;
  std::uint64_t bytes = 0;
  std::uint64_t nanoseconds = 0;
};
static_assert(std::endian::native == std::endian::little, "requests go over the wire as they lie in memory");

constexpr Nanoseconds kGreeting = std::chrono::seconds(1);
constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr int kMostRequests = 1000;

enum class Direction { kSent, kReceived };

// What this end's interface carries in one direction of a transfer.
class TransferWatch {
 public:
  TransferWatch(InterfaceReading read, const Clock& clock) : read_(std::move(read)), clock_(clock) {}

  void begin(Direction direction, std::uint64_t own) {
    direction_ = direction;
    carried_ = {};
    own_ = own;
    before_ = reading();
    began_ = clock_.monotonic();
  }
  void end() {
    const auto now = reading();
    if (!before_ || !now || *now < *before_) return;
    carried_ = {static_cast<Bytes>(own_), static_cast<Bytes>(*now - *before_), clock_.monotonic() - began_};
  }
  [[nodiscard]] const Carried& carried() const { return carried_; }

 private:
  [[nodiscard]] std::optional<std::uint64_t> reading() const {
    const auto both = read_ ? read_() : std::nullopt;
    if (!both) return std::nullopt;
    return direction_ == Direction::kSent ? both->sent : both->received;
  }

  InterfaceReading read_;
  const Clock& clock_;
  Direction direction_ = Direction::kSent;
  std::uint64_t own_ = 0;
  std::optional<std::uint64_t> before_;
  Nanoseconds began_{0};
  Carried carried_;
};

// Bytes through one stream, with a buffer that is used again and again.
class Mover {
 public:
  Mover(const ProbeStream& stream, const ProbeWait& wait) : stream_(stream), wait_(wait), buffer_(kBuffer) {}

  Status send(std::uint64_t bytes) {
    while (bytes > 0) {
      const std::size_t part = std::min<std::uint64_t>(bytes, buffer_.size());
      TRIMTAB_TRY_STATUS(stream_.send({buffer_.data(), part}, wait_));
      bytes -= part;
    }
    return {};
  }
  Status receive(std::uint64_t bytes) {
    while (bytes > 0) {
      const std::size_t part = std::min<std::uint64_t>(bytes, buffer_.size());
      TRIMTAB_TRY_STATUS(stream_.receive({buffer_.data(), part}, wait_));
      bytes -= part;
    }
    return {};
  }
  // Watched once a quarter has arrived: by then what a shaper lets through at once is over.
  Status receive_watched(std::uint64_t bytes, TransferWatch& watch) {
    const std::uint64_t first = bytes / 4;
    TRIMTAB_TRY_STATUS(receive(first));
    watch.begin(Direction::kReceived, bytes - first);
    TRIMTAB_TRY_STATUS(receive(bytes - first));
    watch.end();
    return {};
  }
  Status acknowledge() { return send(1); }
  Status acknowledged() { return receive(1); }

 private:
  const ProbeStream& stream_;
  const ProbeWait& wait_;
  std::vector<std::byte> buffer_;
};

class Asking final : public LinkSides {
 public:
  Asking(const ProbeStream& stream, const ProbeWait& wait, const std::optional<InterfaceReading>& reading)
      : stream_(stream),
        wait_(wait),
        mover_(stream, wait),
        counts_(reading.has_value()),
        watch_(reading.value_or(nullptr), wait.clock) {}

  Status round_trip() override {
    TRIMTAB_TRY_STATUS(ask(Ask::kRoundTrip, 0));
    return mover_.acknowledged();
  }
  Status send(Bytes bytes) override {
    sends_ = true;
    watch_.begin(Direction::kSent, static_cast<std::uint64_t>(bytes));
    TRIMTAB_TRY_STATUS(ask(Ask::kTake, static_cast<std::uint64_t>(bytes)));
    TRIMTAB_TRY_STATUS(mover_.send(static_cast<std::uint64_t>(bytes)));
    TRIMTAB_TRY_STATUS(mover_.acknowledged());
    watch_.end();
    return {};
  }
  Status fetch(Bytes bytes) override {
    sends_ = false;
    TRIMTAB_TRY_STATUS(ask(Ask::kGive, static_cast<std::uint64_t>(bytes)));
    TRIMTAB_TRY_STATUS(mover_.acknowledged());
    return mover_.receive_watched(static_cast<std::uint64_t>(bytes), watch_);
  }
  Result<CarriedAtEnds> carried() override {
    if (!counts_) return CarriedAtEnds{};
    TRIMTAB_TRY_STATUS(ask(Ask::kCarried, 0));
    Answer told;
    TRIMTAB_TRY_STATUS(stream_.receive(std::as_writable_bytes(std::span(&told, 1)), wait_));
    const Carried there{static_cast<Bytes>(told.own), static_cast<Bytes>(told.bytes),
                        Nanoseconds(static_cast<std::int64_t>(told.nanoseconds))};
    return sends_ ? CarriedAtEnds{watch_.carried(), there} : CarriedAtEnds{there, watch_.carried()};
  }

 private:
  Status ask(Ask what, std::uint64_t bytes) {
    const Request request{static_cast<std::uint64_t>(what), bytes};
    return stream_.send(std::as_bytes(std::span(&request, 1)), wait_);
  }

  const ProbeStream& stream_;
  const ProbeWait& wait_;
  Mover mover_;
  bool counts_;
  TransferWatch watch_;
  bool sends_ = true;  // the last transfer came from here
};

class Answering {
 public:
  Answering(const ProbeStream& stream, const ProbeWait& wait, InterfaceReading reading)
      : stream_(stream), wait_(wait), mover_(stream, wait), watch_(std::move(reading), wait.clock) {}

  Status welcome() { return mover_.acknowledge(); }
  Status answer(const Request& request) {
    switch (static_cast<Ask>(request.ask)) {
      case Ask::kRoundTrip:
        return mover_.acknowledge();
      case Ask::kTake:
        sent_ = false;
        TRIMTAB_TRY_STATUS(mover_.receive_watched(request.bytes, watch_));
        return mover_.acknowledge();
      case Ask::kGive:
        sent_ = true;
        watch_.begin(Direction::kSent, request.bytes);
        TRIMTAB_TRY_STATUS(mover_.acknowledge());
        return mover_.send(request.bytes);
      case Ask::kCarried:
        return tell();
    }
    return bad_input("a link's probe was asked for something that it does not know");
  }

 private:
  // What was sent has arrived when the other side asks.
  Status tell() {
    if (sent_) watch_.end();
    const Carried& carried = watch_.carried();
    const Answer told{static_cast<std::uint64_t>(carried.own), static_cast<std::uint64_t>(carried.bytes),
                      static_cast<std::uint64_t>(carried.time.count())};
    return stream_.send(std::as_bytes(std::span(&told, 1)), wait_);
  }

  const ProbeStream& stream_;
  const ProbeWait& wait_;
  Mover mover_;
  TransferWatch watch_;
  bool sent_ = false;  // the last transfer came from here
};

}  // namespace

Status answer_link(const ProbeStream& peer, const std::string& token, const LinkBudget& budget, const ProbeWait& wait,
                   const std::function<InterfaceReading()>& reading) {
  const ProbeWait greeting{wait.clock, wait.clock.monotonic() + wait.left(kGreeting), wait.cancelled};
  TRIMTAB_TRY(const ProbeChallenge challenge, new_challenge());
  TRIMTAB_TRY_STATUS(peer.send(challenge, greeting));
  ProbeProof shown{};
  TRIMTAB_TRY_STATUS(peer.receive(shown, greeting));
  if (!same(proof_of(token, challenge), shown)) {
    return bad_input("a connection to a link's probe did not show that it knows the probe's token");
  }
  Answering answering(peer, wait, reading());
  TRIMTAB_TRY_STATUS(answering.welcome());
  const auto most = static_cast<std::uint64_t>(budget.bytes);
  std::uint64_t moved = 0;
  for (int i = 0; i < kMostRequests; ++i) {
    Request request;
    TRIMTAB_TRY_STATUS(peer.receive(std::as_writable_bytes(std::span(&request, 1)), wait));
    if (request.bytes > most - moved) return bad_input("a link's probe was asked to move more than its budget");
    moved += request.bytes;
    TRIMTAB_TRY_STATUS(answering.answer(request));
  }
  return {};
}

Result<LinkSpeed> ask_link(const ProbeStream& peer, const std::string& token, const LinkBudget& budget,
                           const ProbeWait& wait, const std::optional<InterfaceReading>& reading,
                           const std::function<Status(Nanoseconds)>& rest) {
  TRIMTAB_ASSERT(token.size() == kProbeTokenBytes, "a probe's token was checked when the probe began");
  ProbeChallenge challenge{};
  TRIMTAB_TRY_STATUS(peer.receive(challenge, wait));
  TRIMTAB_TRY_STATUS(peer.send(proof_of(token, challenge), wait));
  Asking sides(peer, wait, reading);
  std::byte welcome{};
  TRIMTAB_TRY_STATUS(peer.receive({&welcome, 1}, wait));
  return measure_link(sides, budget, wait.clock, rest);
}

Result<ProbeChallenge> new_challenge() {
  ProbeChallenge challenge{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(challenge.data()), static_cast<int>(challenge.size())) == 1) {
    return challenge;
  }
  return unavailable("a link's probe needs random bytes, and the system gives none");
}

ProbeProof proof_of(const std::string& token, const ProbeChallenge& challenge) {
  ProbeProof proof{};
  unsigned length = 0;
  const unsigned char* made = HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                                   reinterpret_cast<const unsigned char*>(challenge.data()), challenge.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), &length);
  TRIMTAB_ASSERT(made != nullptr && length == proof.size(), "an HMAC of SHA-256 has 32 bytes");
  return proof;
}

bool same(const ProbeProof& one, const ProbeProof& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

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
                  const ProbeWait& wait, const InterfaceSource& count) {
  while (true) {
    TRIMTAB_TRY(const ProbeSocket peer, listening.accept(wait));
    const auto reading = [&] { return count ? count(peer) : InterfaceReading(); };
    (void)answer_link(peer, token, budget, wait, reading);  // what this one did wrong must not keep the next one away
  }
}

Result<LinkSpeed> probe_link(const std::string& address, std::uint16_t port, const std::string& token,
                             const LinkBudget& budget, const ProbeWait& wait, const InterfaceSource& count) {
  TRIMTAB_TRY(const ProbeSocket socket, ProbeSocket::connect(address, port, wait));
  const std::optional<InterfaceReading> reading = count ? std::optional(count(socket)) : std::nullopt;
  return ask_link(socket, token, budget, wait, reading, [&wait](Nanoseconds time) { return rest_for(time, wait); });
}

}  // namespace trimtab::agent
