#include "local/local_peer.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace trimtab::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kReadsPerTurn = 16;  // Then the others on the loop have their turn.
constexpr std::size_t kMaxDescriptorsPerMessage = 4;

}  // namespace

LocalPeer::LocalPeer(asio::io_context& io, int descriptor, Handlers handlers, const Rate& max_rate,
                     std::shared_ptr<HalfFrames> half_frames)
    : io_(io),
      socket_(io, descriptor),
      pause_(io),
      introduction_(io),
      handlers_(std::move(handlers)),
      rate_(max_rate),
      half_frames_(std::move(half_frames)) {}

LocalPeer::~LocalPeer() {
  hold(0);
  drop_descriptor();
}

void LocalPeer::start(Nanoseconds introduction) {
  wait_to_read();
  introduction_.expires_after(introduction);
  introduction_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && !self->introduced_) self->turn_away("it did not say a whole frame in time");
  });
}

// What it held is others' at once.
void LocalPeer::turn_away(const std::string& reason) {
  if (ended_ || closing_) return;
  hold(0);
  handlers_.turned_away(reason);
  close(reason);
}

void LocalPeer::hold(std::size_t bytes) {
  half_frames_->bytes += bytes - held_;
  held_ = bytes;
}

bool LocalPeer::send(std::string_view json) {
  if (ended_ || closing_) return false;
  if (outgoing_.size() + json.size() > kMaxQueuedBytes) {
    close("it does not read: " + std::to_string(outgoing_.size()) + " bytes wait for it");
    return false;
  }
  outgoing_ += frame_for(json);
  if (!writing_ && !write_some()) return false;
  return true;
}

void LocalPeer::close(std::string reason) {
  if (ended_ || closing_) return;
  closing_ = true;
  asio::post(io_, [self = shared_from_this(), reason = std::move(reason)] { self->end(reason); });
}

void LocalPeer::abort() {
  ended_ = true;
  pause_.cancel();
  introduction_.cancel();
  hold(0);
  error_code ignored;
  socket_.close(ignored);
}

void LocalPeer::wait_to_read() {
  socket_.async_wait(asio::posix::descriptor_base::wait_read, [self = shared_from_this()](error_code failure) {
    if (!failure && !self->ended_) self->readable();
  });
}

void LocalPeer::readable() {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const Read read = receive();
    if (read == Read::kEnded || ended_) return;
    if (read == Read::kNothingYet || wait_.count() > 0) break;
  }
  read_on();
}

void LocalPeer::read_on() {
  wait_.count() > 0 ? read_later() : wait_to_read();
}

void LocalPeer::read_later() {
  handlers_.delayed();
  pause_.expires_after(std::exchange(wait_, Nanoseconds(0)));
  pause_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled || self->ended_) return;
    self->deliver();
    if (!self->ended_) self->read_on();
  });
}

LocalPeer::Read LocalPeer::receive() {
  static thread_local std::array<char, kReadBytes> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptorsPerMessage)> control{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t count = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Read::kNothingYet;
  if (count < 0) {
    end(std::strerror(errno));
    return Read::kEnded;
  }
  keep_descriptors(message);
  if (count == 0) {
    end(cutter_.holds_a_part() ? "closed by the process in the middle of a frame" : "closed by the process");
    return Read::kEnded;
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) close("it sent too many descriptors at once");
  cutter_.add({bytes.data(), static_cast<std::size_t>(count)});
  deliver();
  if (ended_) return Read::kEnded;
  if (half_frames_->bytes <= half_frames_->most || held_ == 0) return Read::kAgain;
  turn_away("frames of all processes that are not whole take more than " + std::to_string(half_frames_->most) +
            " bytes, and its own is among them");
  return Read::kEnded;
}

void LocalPeer::keep_descriptors(const msghdr& message) {
  for (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(header))) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      if (received_descriptor_ >= 0) {
        ::close(descriptor);
        close("a frame carries one descriptor at most");
      } else {
        received_descriptor_ = descriptor;
      }
    }
  }
}

// The kernel ends a read behind the bytes that carried a descriptor, so it belongs to the frame of the last byte.
void LocalPeer::deliver() {
  while (!ended_ && !closing_ && wait_.count() == 0) {
    auto frame = cutter_.next();
    if (!frame) break;
    if (!std::exchange(introduced_, true)) introduction_.cancel();
    wait_ = rate_.take(std::chrono::steady_clock::now().time_since_epoch(), frame->json.size());
    handlers_.frame(frame->json, frame->ends_the_bytes ? std::exchange(received_descriptor_, -1) : -1);
  }
  if (!cutter_.broken().empty()) close(cutter_.broken());
  if (!ended_ && !closing_) hold(cutter_.held_bytes());
}

void LocalPeer::wait_to_write() {
  writing_ = true;
  socket_.async_wait(asio::posix::descriptor_base::wait_write, [self = shared_from_this()](error_code failure) {
    self->writing_ = false;
    if (!failure && !self->ended_) self->write_some();
  });
}

bool LocalPeer::write_some() {
  const ssize_t count =
      ::send(socket_.native_handle(), outgoing_.data(), outgoing_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0 && errno != EAGAIN && errno != EINTR) {
    close(std::strerror(errno));
    return false;
  }
  if (count > 0) outgoing_.erase(0, static_cast<std::size_t>(count));
  if (!outgoing_.empty()) wait_to_write();
  return true;
}

void LocalPeer::end(const std::string& reason) {
  if (ended_) return;
  abort();
  handlers_.ended(reason);
}

void LocalPeer::drop_descriptor() {
  if (received_descriptor_ >= 0) ::close(std::exchange(received_descriptor_, -1));
}

}  // namespace trimtab::net
