#include "http/server_core.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/system_timer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>

#include "base/units.hpp"
#include "silence_watch.hpp"

namespace trimtab::net {

namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;
using boost::system::error_code;

namespace {

constexpr auto kHandshakeTimeout = std::chrono::seconds(10);
// Pings, pongs and the like, each of which is read between two messages whatever the rate of those is. Nobody who means
// well sends one in a second.
constexpr Rate kControlFrames{20, 0};
// Heads of frames, for one message: those without content are read without a pause, and are within no rate.
constexpr Bytes kMostFrameHeads = Bytes{1} << 20;
// A peer that has once sent a large frame does not keep its memory.
constexpr std::size_t kKeptBytes = 64 * 1024;
// What is read at once of a frame: from a peer that has not said who it is, and from the others.
constexpr std::size_t kFirstPiece = 16 * 1024;
constexpr std::size_t kPiece = kKeptBytes;

// An IPv4 address as such, also where it came to a socket of both families.
std::string plain_address(const boost::asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).to_string();
}

class BeastPeer final : public WebSocketPeer, public std::enable_shared_from_this<BeastPeer> {
 public:
  BeastPeer(std::shared_ptr<ServerCore> core, Stream stream, UpgradeRequest request, PeerOrigin of)
      : WebSocketPeer(std::move(of)),
        core_(std::move(core)),
        socket_(std::move(stream)),
        pause_(socket_.get_executor()),
        expiry_(socket_.get_executor()),
        introduction_(socket_.get_executor()),
        request_(std::move(request)),
        rate_(core_->options.max_rate),
        accepted_by_(origin.accepted_by),
        id_(++core_->last_id) {}

  ~BeastPeer() override { core_->queued_bytes -= charged_; }
  BeastPeer(const BeastPeer&) = delete;
  BeastPeer& operator=(const BeastPeer&) = delete;

  void accept() {
    beast::get_lowest_layer(socket_).expires_never();  // From here on the WebSocket keeps its own time.
    socket_.set_option(
        websocket::stream_base::timeout{kHandshakeTimeout, core_->options.idle_timeout, /*keep_alive_pings=*/true});
    socket_.read_message_max(largest_frame());
    socket_.auto_fragment(false);
    socket_.binary(true);
    socket_.control_callback([this](websocket::frame_type, beast::string_view) { controlled(); });
    beast::get_lowest_layer(socket_).on_read([this](std::size_t bytes) { count(bytes); });
    socket_.async_accept(request_, [self = shared_from_this()](error_code failure) { self->accepted(failure); });
  }

  bool send(std::string frame) override {
    if (closing_ || finished_) return false;
    queued_bytes_ += frame.size();
    if (queued_bytes_ > core_->options.max_queued_bytes) {
      return refuse(Refusal::Kind::kSlow,
                    "it does not read: " + std::to_string(queued_bytes_) + " bytes waited for it");
    }
    charge(queued_bytes_);
    queue_.push_back(std::move(frame));
    core_->bound_queues();
    if (closing_) return false;
    if (queue_.size() == 1) write();
    return true;
  }

  void close() override {
    if (closing_ || finished_) return;
    closing_ = true;
    reason_ = "closed by this side";
    introduction_.expires_after(kHandshakeTimeout);
    introduction_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) self->finish(self->reason_);
    });
    if (queue_.empty()) say_goodbye();
  }

  [[nodiscard]] std::string objection() override {
    const auto& tls = core_->options.tls;
    if (finished_ || !tls || tls->contexts() == accepted_by_) return "";
    accepted_by_ = tls->contexts();
    return objection_to(beast::get_lowest_layer(socket_), *accepted_by_, CertificateKind::kNode);
  }

  void abort() override {
    finished_ = true;
    end_now();
  }

  void introduced() override {
    introduced_ = true;
    held_.reset();
    introduction_.cancel();
    socket_.read_message_max(largest_frame());
  }

  [[nodiscard]] WaitingSince waiting_since() const override {
    const bool waited_for = must_introduce_itself() && !finished_;
    return waited_for ? WaitingSince(begun_) : std::nullopt;
  }

  [[nodiscard]] const Charge* half_frame() const override { return held_ ? &*held_ : nullptr; }
  [[nodiscard]] std::chrono::steady_clock::time_point half_frame_since() const override { return held_since_; }

  void give_way(const std::string& reason) override { finish(reason); }

  [[nodiscard]] std::size_t queued_bytes() const override { return charged_; }
  void drop(const std::string& reason) override { refuse(Refusal::Kind::kSlow, reason); }

  [[nodiscard]] std::uint64_t received_bytes() override {
    return transport_progress(beast::get_lowest_layer(socket_).socket().native_handle()).received;
  }
  [[nodiscard]] PeerAddresses addresses() override {
    const auto& socket = beast::get_lowest_layer(socket_).socket();
    error_code failure;
    PeerAddresses both;
    if (const auto end = socket.remote_endpoint(failure); !failure) both.remote = plain_address(end.address());
    if (const auto end = socket.local_endpoint(failure); !failure) both.local = plain_address(end.address());
    return both;
  }

 private:
  void accepted(error_code failure) {
    if (failure || finished_ || core_->stopped) return;
    request_ = {};
    core_->peer_opened(id_, shared_from_this());
    end_with_certificate();
    end_without_introduction();
    read();
  }

  // A certificate that has expired gives no right to what it was shown for.
  void end_with_certificate() {
    if (!origin.identity) return;
    expiry_.expires_at(expiry_of(*origin.identity));
    expiry_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (cancelled || self->finished_) return;
      self->refuse(Refusal::Kind::kTls, "its certificate ('" + self->origin.identity->name + "') has expired");
    });
  }

  [[nodiscard]] bool must_introduce_itself() const {
    return !introduced_ && core_->options.introduction_timeout.count() > 0;
  }
  [[nodiscard]] std::size_t largest_frame() const {
    const ServerOptions& options = core_->options;
    return must_introduce_itself() ? std::min(options.max_frame_bytes, options.max_frame_bytes_of_unknown)
                                   : options.max_frame_bytes;
  }

  // However many frames without a word come meanwhile.
  void end_without_introduction() {
    if (!must_introduce_itself()) return;
    introduction_.expires_after(core_->options.introduction_timeout);
    introduction_.async_wait([self = shared_from_this()](error_code cancelled) {
      if (cancelled || self->finished_ || self->introduced_) return;
      self->refuse(Refusal::Kind::kSlow, "it did not say who it is in time");
    });
  }

  void read() {
    if (!finished_) read_piece();
  }

  [[nodiscard]] std::size_t piece() const { return must_introduce_itself() ? kFirstPiece : kPiece; }

  void read_piece() {
    socket_.async_read_some(buffer_, piece(), [self = shared_from_this()](error_code failure, std::size_t) {
      self->piece_received(failure);
    });
  }

  void piece_received(error_code failure) {
    if (failure || finished_ || socket_.is_message_done()) return received(failure);
    hold(buffer_.capacity());
    core_->bound_half_frames();
    if (!finished_) read_piece();
  }

  // Of the room for half frames; a first piece is everybody's.
  void hold(std::size_t bytes) {
    const std::size_t beyond = bytes > piece() ? bytes - piece() : 0;
    if (beyond == 0) return held_.reset();
    if (held_) return held_->change(beyond);
    held_since_ = std::chrono::steady_clock::now();
    const bool unknown = must_introduce_itself();
    held_.emplace(unknown ? core_->unknown_half_frames : core_->half_frames,
                  unknown ? std::string() : caller_of(origin.identity, origin.token), beyond);
  }

  // Of the room for what waits to be sent.
  void charge(std::size_t bytes) {
    core_->queued_bytes += bytes - charged_;
    charged_ = bytes;
  }

  void received(error_code failure) {
    if (finished_) return;
    if (failure) return broken(failure);
    if (!socket_.got_binary()) {
      refuse(Refusal::Kind::kMalformed, "it sent a text frame where only binary frames are spoken");
      return;
    }
    deliver();
  }

  void deliver() {
    if (finished_) return;
    const Nanoseconds others = closing_ ? Nanoseconds(0) : core_->wait_of(id_);
    if (others.count() > 0) return after(std::max(others, RateLimit::kShortestPause), &BeastPeer::deliver);
    const auto bytes = buffer_.cdata();
    if (!closing_) core_->peer_message(id_, {static_cast<const char*>(bytes.data()), bytes.size()});
    const Nanoseconds wait = rate_.take(std::chrono::steady_clock::now().time_since_epoch(), bytes.size());
    other_bytes_ = 0;
    buffer_.consume(buffer_.size());
    if (buffer_.capacity() > kKeptBytes) buffer_.shrink_to_fit();
    hold(buffer_.capacity());
    read_on(wait);
  }

  // What has come since the last message and is no part of the next one.
  void count(std::size_t bytes) {
    other_bytes_ += bytes;
    if (other_bytes_ <= kMostFrameHeads + buffer_.size() || finished_ || closing_) return;
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] {
      if (self->finished_ || self->closing_) return;
      self->refuse(Refusal::Kind::kMalformed,
                   "it sends WebSocket frames that hold nothing, or next to nothing: more than " +
                       format_bytes(kMostFrameHeads) + " of frames' heads for one message");
    });
  }

  // Reading cannot pause here, so who floods is ended.
  void controlled() {
    if (finished_ || closing_) return;
    if (controls_.take(std::chrono::steady_clock::now().time_since_epoch(), 0).count() == 0) return;
    refuse(Refusal::Kind::kMalformed, "it sends more than " + std::to_string(kControlFrames.frames_per_second) +
                                          " WebSocket control frames in a second");
  }

  void read_on(Nanoseconds wait) {
    if (wait.count() == 0 || finished_) return read();
    if (!core_->stopped && core_->handlers.delayed) core_->handlers.delayed(id_);
    after(wait, &BeastPeer::read);
  }

  void after(Nanoseconds wait, void (BeastPeer::*what)()) {
    pause_.expires_after(wait);
    pause_.async_wait([self = shared_from_this(), what](error_code cancelled) {
      if (!cancelled) (self.get()->*what)();
    });
  }

  void broken(error_code failure) {
    const bool too_large = failure == websocket::error::message_too_big || failure == websocket::error::buffer_overflow;
    if (too_large) core_->refused(Refusal::Kind::kTooLarge, origin.address, explain(failure));
    finish(reason_.empty() ? explain(failure) : reason_);
  }

  void write() {
    socket_.async_write(boost::asio::buffer(queue_.front()),
                        [self = shared_from_this()](error_code failure, std::size_t) { self->written(failure); });
  }

  void written(error_code failure) {
    if (finished_) return;
    if (failure) return finish(reason_.empty() ? explain(failure) : reason_);
    queued_bytes_ -= queue_.front().size();
    queue_.pop_front();
    if (!closing_ || charged_ > 0) charge(queued_bytes_);
    if (!queue_.empty()) return write();
    if (closing_) say_goodbye();
  }

  void say_goodbye() {
    socket_.async_close(websocket::close_code::normal,
                        [self = shared_from_this()](error_code) { self->finish(self->reason_); });
  }

  // Ends the connection. Not from within the caller's own call: `closed` comes later, on the loop.
  bool refuse(Refusal::Kind kind, std::string reason) {
    core_->refused(kind, origin.address, reason);
    reason_ = std::move(reason);
    closing_ = true;
    charge(0);
    beast::get_lowest_layer(socket_).close();
    boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->finish(self->reason_); });
    return false;
  }

  void finish(const std::string& reason) {
    if (finished_) return;
    finished_ = true;
    held_.reset();
    charge(0);
    end_now();
    core_->peer_closed(id_, reason);
  }

  void end_now() {
    pause_.cancel();
    expiry_.cancel();
    introduction_.cancel();
    beast::get_lowest_layer(socket_).close();
  }

  [[nodiscard]] std::string explain(error_code failure) const {
    if (failure == websocket::error::closed) return "closed by the peer";
    if (failure == beast::error::timeout) return "silent: nothing came from it within the idle time";
    if (failure == websocket::error::message_too_big || failure == websocket::error::buffer_overflow) {
      return "it sent a frame of more than " + std::to_string(largest_frame()) + " bytes" +
             (must_introduce_itself() ? " before it had said who it is" : "");
    }
    return failure.message();
  }

  std::shared_ptr<ServerCore> core_;
  websocket::stream<Stream, /*deflateSupported=*/false> socket_;
  boost::asio::steady_timer pause_;
  boost::asio::system_timer expiry_;
  boost::asio::steady_timer introduction_;
  UpgradeRequest request_;
  RateLimit rate_;
  RateLimit controls_{kControlFrames};
  std::uint64_t other_bytes_ = 0;  // that have come since the last message: the next one's, and heads of frames
  beast::flat_buffer buffer_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  std::size_t charged_ = 0;     // of it, until it is being closed
  std::optional<Charge> held_;  // of the room for half frames
  std::chrono::steady_clock::time_point held_since_;
  std::shared_ptr<Credentials::Contexts> accepted_by_;  // its certificate
  PeerId id_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  bool introduced_ = false;
  bool closing_ = false;
  bool finished_ = false;
  std::string reason_;
};

}  // namespace

void accept_websocket(const std::shared_ptr<ServerCore>& core, Stream stream, UpgradeRequest request,
                      PeerOrigin origin) {
  std::make_shared<BeastPeer>(core, std::move(stream), std::move(request), std::move(origin))->accept();
}

}  // namespace trimtab::net
