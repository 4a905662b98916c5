#include "trust/listener.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>

#include "base/units.hpp"
#include "trust/users.hpp"

namespace trimtab::net {

namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using Done = std::function<void(const std::string& objection)>;

constexpr Nanoseconds kFirstPause = std::chrono::milliseconds(1);
constexpr Nanoseconds kLongestPause = std::chrono::milliseconds(100);

// IPv4 as itself, where it is mapped.
tcp::endpoint plain(const tcp::endpoint& end) {
  using boost::asio::ip::make_address_v4;
  const auto address = end.address();
  if (address.is_v4() || !address.to_v6().is_v4_mapped()) return end;
  return {make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()), end.port()};
}

// The other side has said something, or closed.
bool is_past_accepting(int socket) {
  char byte = 0;
  return ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || (errno != EAGAIN && errno != EINTR);
}

std::string and_name_it(const ListenerRule& rule, const std::string& user) {
  return ". Nothing was sent to it. If it is your coordinator, name its user: " + rule.setting + " " + user;
}

class ListenerJudge final : public std::enable_shared_from_this<ListenerJudge> {
 public:
  ListenerJudge(Stream& stream, ListenerRule rule, Nanoseconds patience, Done done, SocketHolder holder)
      : stream_(stream),
        rule_(std::move(rule)),
        patience_(patience),
        end_(std::chrono::steady_clock::now() + patience),
        done_(std::move(done)),
        holder_(std::move(holder)),
        timer_(stream.get_executor()) {}

  void look() {
    error_code closed;
    const auto here = plain(stream_.socket().local_endpoint(closed));
    const auto there = plain(stream_.socket().remote_endpoint(closed));
    if (closed) return say("closed by the other side");
    if (!there.address().is_loopback()) return say("");
    const bool accepted = is_past_accepting(stream_.socket().native_handle());
    const auto user = holder_(there, here);
    if (!user.ok()) return say(rule_.must_be_seen ? user.error().message + and_name_none() : "");
    if (*user) return say(objection_to_listener(**user, ::geteuid(), own_user_namespace(), rule_));
    if (accepted) return say("it closed the connection before it could be seen whose it is");
    if (std::chrono::steady_clock::now() >= end_) return say("it did not accept in " + format_duration(patience_));
    wait();
  }

 private:
  void say(const std::string& objection) { std::exchange(done_, nullptr)(objection); }

  void wait() {
    timer_.expires_after(std::exchange(pause_, std::min(pause_ * 2, kLongestPause)));
    timer_.async_wait([self = shared_from_this()](error_code) {
      if (self->stream_.socket().is_open()) self->look();
    });
  }

  [[nodiscard]] static std::string and_name_none() {
    return ", so it cannot be seen whose the listener is. Nothing was sent to it. Allow AF_NETLINK or mount "
           "/proc whole, or use TLS";
  }

  Stream& stream_;  // lives as long as done_ does
  ListenerRule rule_;
  Nanoseconds patience_;
  std::chrono::steady_clock::time_point end_;
  Done done_;
  SocketHolder holder_;
  boost::asio::steady_timer timer_;
  Nanoseconds pause_ = kFirstPause;
};

std::string with_id(uid_t user) {
  const std::string id = std::to_string(user);
  const std::string name = name_of_user(user);
  return name == id ? "user " + id : name + " (user " + id + ")";
}

}  // namespace

std::string objection_to_listener(uid_t user, uid_t own, const UserNamespace& users, const ListenerRule& rule) {
  if (!users.knows(user)) {
    return "the listener belongs to a user who has no number in this container, so it may be anybody. Nothing was sent "
           "to it. Give that user a number here, or use TLS";
  }
  if (peer_admitted(user, own)) return "";
  const auto named = user_of(rule.user);
  if (named == user) return "";
  const std::string self = own == 0 ? "" : ", " + with_id(own);
  const std::string also = named && peer_admitted(*named, own) ? "" : " or " + rule.user;
  return "the listener belongs to " + with_id(user) + ", and expected was root" + self + also +
         (named ? "" : " (unknown here)") + and_name_it(rule, name_of_user(user));
}

void judge_listener(Stream& stream, ListenerRule rule, Nanoseconds patience, Done done, SocketHolder holder) {
  std::make_shared<ListenerJudge>(stream, std::move(rule), patience, std::move(done), std::move(holder))->look();
}

}  // namespace trimtab::net
