#include "http/server_core.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include "base/check.hpp"
#include "http/target.hpp"
#include "trust/tls.hpp"

namespace trimtab::net {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::uint32_t kMaxHeaderBytes = 16 * 1024;
constexpr auto kHandshakeTime = std::chrono::seconds(10);
// After an error reply, or TLS's own word of a failed handshake, what still comes is read and thrown away for a moment:
// closing at once would reset the connection, and the reply would be lost on the way.
constexpr auto kDrainTime = std::chrono::seconds(2);

// What a proxy and this server must not read in two ways.
struct OnceHeader {
  http::field field;
  const char* name;
  bool needed;
};
constexpr OnceHeader kOnce[] = {{http::field::host, "Host", true},
                                {http::field::authorization, "Authorization", false},
                                {http::field::origin, "Origin", false}};

HttpResponse plain(int status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::move(text) + "\n"};
}

class BeastSession final : public HttpSession, public std::enable_shared_from_this<BeastSession> {
 public:
  BeastSession(std::shared_ptr<ServerCore> core, TcpSocket socket, std::string client)
      : HttpSession(std::move(client)),
        core_(std::move(core)),
        stream_(std::move(socket)),
        buffer_(64 * 1024),
        id_(++core_->last_id) {}

  void start() {
    core_->sessions.emplace(id_, shared_from_this());
    if (!core_->options.tls) return read();
    accepted_by_ = core_->options.tls->contexts();
    stream_.secure(accepted_by_->server);
    stream_.expires_after(std::min<Nanoseconds>(kHandshakeTime, core_->options.idle_timeout));
    stream_.shake_hands(TlsStream::server, [self = shared_from_this()](error_code failure) { self->shaken(failure); });
  }

  void abort() override {
    aborted_ = true;
    stream_.close();
  }

  void give_way() override {
    answer_.reset();
    abort();
  }

  [[nodiscard]] const Charge* answer() const override { return answer_ ? &*answer_ : nullptr; }
  [[nodiscard]] std::chrono::steady_clock::time_point answering_since() const override { return since_; }

  [[nodiscard]] WaitingSince waiting_since() const override { return answering_ ? std::nullopt : WaitingSince(since_); }

 private:
  [[nodiscard]] bool over() const { return core_->stopped || aborted_; }

  void shaken(error_code failure) {
    if (over()) return finish();
    if (failure && closed_in_silence(stream_, failure)) return finish();
    if (failure) return hang_up(handshake_failure(stream_, failure));
    peer_ = peer_identity(stream_);
    read();
  }

  void hang_up(const std::string& reason) {
    core_->refused(Refusal::Kind::kTls, address, reason);
    stream_.drop_tls();
    linger();
  }

  void read() {
    answering_ = false;
    parser_.emplace();
    parser_->header_limit(kMaxHeaderBytes);
    parser_->body_limit(core_->options.max_body_bytes);
    stream_.expires_after(core_->options.idle_timeout);  // For the whole request: a trickle does not extend it.
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code failure, std::size_t) { self->begun(failure); });
  }

  void begun(error_code failure) {
    if (over()) return finish();
    if (failure) return broken(failure);
    if (const std::string objection = judge_again(); !objection.empty()) {
      return refuse(Refusal::Kind::kTls, 403, objection);
    }
    judge(parser_->get());
  }

  // Other authorities may have been read since the handshake.
  [[nodiscard]] std::string judge_again() {
    const auto& tls = core_->options.tls;
    if (!tls || tls->contexts() == accepted_by_) return "";
    accepted_by_ = tls->contexts();
    return objection_to(stream_, *accepted_by_, CertificateKind::kNode);
  }

  // Whoever is not admitted sends no body.
  void judge(const UpgradeRequest& head) {
    if (peer_ && expiry_of(*peer_) <= std::chrono::system_clock::now()) {
      return refuse(Refusal::Kind::kTls, 403, "its certificate ('" + peer_->name + "') has expired");
    }
    for (const auto& [field, name, needed] : kOnce) {
      const auto count = head.count(field);
      if (count > 1 || (needed && count == 0)) {
        return refuse(Refusal::Kind::kMalformed, 400,
                      "a request has " + std::string(needed ? "one " : "at most one ") + name +
                          " header, but this has " + std::to_string(count));
      }
    }
    if (head.count(http::field::transfer_encoding) > 0 && head[http::field::transfer_encoding] != "chunked") {
      return refuse(Refusal::Kind::kMalformed, 400, "of transfer encodings this server knows chunked alone");
    }
    auto target = parse_target({head.target().data(), head.target().size()});
    if (!target)
      return refuse(Refusal::Kind::kMalformed, 400,
                    "the request's target cannot be decoded, or names a parameter twice");
    const auto host = head[http::field::host];
    const auto origin = head[http::field::origin];
    if (auto why = refusal({host.data(), host.size()}, {origin.data(), origin.size()}, core_->on_loopback)) {
      return refuse(Refusal::Kind::kForeign, 403, *why);
    }
    const auto authorization = head[http::field::authorization];
    request_ = {std::string(head.method_string()),
                std::move(target->path),
                std::move(target->query),
                "",
                bearer_token({authorization.data(), authorization.size()}),
                address,
                peer_,
                beast::websocket::is_upgrade(head)};
    auto denied = core_->handlers.admit ? core_->handlers.admit(request_) : std::nullopt;
    if (denied) return turn_down(std::move(*denied));
    // Nobody would hear its frames, and nothing would ever end it.
    if (request_.upgrade && !core_->handlers.message) {
      return turn_down(plain(404, "there is no WebSocket here: this port answers plain HTTP requests alone"));
    }
    if (const std::size_t bytes = announced(); bytes > 0) {
      if (!core_->bodies.has_room(caller(), bytes)) {
        return refuse(Refusal::Kind::kFull, 503,
                      "the bodies of requests under way leave no room for " + std::to_string(bytes) +
                          " bytes more: ask again in a second");
      }
      body_.emplace(core_->bodies, caller(), bytes);
    }
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code failure, std::size_t) { self->received(failure); });
  }

  [[nodiscard]] const std::string& caller() const { return caller_of(peer_, request_.token); }

  // What the body may take. One that is too large is told so, not that there is no room.
  [[nodiscard]] std::size_t announced() const {
    const std::size_t most = core_->options.max_body_bytes;
    if (parser_->chunked()) return most;
    const auto length = parser_->content_length();
    return length ? static_cast<std::size_t>(std::min<std::uint64_t>(*length, most)) : 0;
  }

  void received(error_code failure) {
    if (over()) return finish();
    if (failure) return broken(failure);
    serve(parser_->release());
  }

  void broken(error_code failure) {
    if (failure == http::error::body_limit) {
      return refuse(Refusal::Kind::kTooLarge, 413,
                    "the body is larger than " + std::to_string(core_->options.max_body_bytes) + " bytes");
    }
    if (failure == http::error::header_limit || failure == http::error::buffer_overflow) {
      return refuse(Refusal::Kind::kTooLarge, 431,
                    "the header is larger than " + std::to_string(kMaxHeaderBytes) + " bytes");
    }
    if (failure.category() == http::make_error_code(http::error::bad_method).category() &&
        failure != http::error::end_of_stream && failure != http::error::partial_message) {
      return refuse(Refusal::Kind::kMalformed, 400, "this is not HTTP/1.1: " + failure.message());
    }
    // A client that keeps an idle connection is not slow.
    if (failure == beast::error::timeout && (parser_->got_some() || buffer_.size() > 0)) {
      return turn_away(Refusal::Kind::kSlow, "its request was not there in time");
    }
    finish();
  }

  void serve(UpgradeRequest request) {
    if (request_.upgrade) return upgrade(std::move(request));
    keep_alive_ = request.keep_alive();
    head_only_ = request.method() == http::verb::head;
    request_.body = std::move(request.body());
    HttpResponse response =
        core_->handlers.http ? core_->handlers.http(request_) : plain(404, "there is no HTTP interface here");
    request_.body = {};
    if (response.later) return await(response);  // who makes it may have the body still
    reply(std::move(response));
  }

  // Until then this waits for nothing: who makes the answer has a time of its own.
  void await(const HttpResponse& response) {
    answering_ = true;
    stream_.expires_never();
    response.later([unanswered = std::make_shared<Unanswered>(shared_from_this())](HttpResponse made) {
      if (const auto self = std::exchange(unanswered->session, nullptr)) self->made(std::move(made));
    });
  }

  void made(HttpResponse response) {
    TRIMTAB_ASSERT(!response.later, "an answer that was waited for is there");
    reply(std::move(response));
  }

  // Whoever was to answer has forgotten it.
  struct Unanswered {
    explicit Unanswered(std::shared_ptr<BeastSession> of) : session(std::move(of)) {}
    Unanswered(const Unanswered&) = delete;
    Unanswered& operator=(const Unanswered&) = delete;
    ~Unanswered() {
      if (session) session->made(plain(503, "this daemon cannot answer now: ask again in a second"));
    }
    std::shared_ptr<BeastSession> session;
  };

  void upgrade(UpgradeRequest request) {
    if (request_.path != core_->options.websocket_path) {
      return turn_down(plain(404, "there is no WebSocket at " + request_.path));
    }
    accept_websocket(core_, std::move(stream_), std::move(request), {address, peer_, request_.token, accepted_by_});
    core_->sessions.erase(id_);
  }

  void refuse(Refusal::Kind kind, int status, const std::string& reason) {
    core_->refused(kind, address, reason);
    turn_down(plain(status, reason));
  }

  void turn_away(Refusal::Kind kind, const std::string& reason) {
    core_->refused(kind, address, reason);
    finish();
  }

  void turn_down(HttpResponse response) {
    keep_alive_ = false;
    drain_ = true;
    reply(std::move(response));
  }

  void reply(HttpResponse response) {
    if (over()) return finish();
    answering_ = true;
    body_.reset();
    since_ = std::chrono::steady_clock::now();
    core_->make_room_for_answer(caller(), response.body.size());
    answer_.emplace(core_->answers, caller(), response.body.size());
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(response.status));
    response_.set(http::field::content_type, response.content_type);
    response_.set(http::field::cache_control, "no-store");
    response_.set("X-Content-Type-Options", "nosniff");
    if (response.status == 401) response_.set(http::field::www_authenticate, "Bearer");
    if (response.status == 429 || response.status == 503) response_.set(http::field::retry_after, "1");
    response_.keep_alive(keep_alive_);
    response_.content_length(response.body.size());
    if (!head_only_) response_.body() = std::move(response.body);
    stream_.expires_after(core_->options.idle_timeout);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](error_code failure, std::size_t) { self->written(failure); });
  }

  void written(error_code failure) {
    if (failure == beast::error::timeout) {
      return turn_away(Refusal::Kind::kSlow, "it did not read its answer in time");
    }
    if (failure || over()) return finish();
    answer_.reset();
    response_ = {};
    request_ = {};
    if (keep_alive_) {
      since_ = std::chrono::steady_clock::now();
      return read();
    }
    answering_ = false;
    if (drain_) return linger();
    error_code ignored;
    stream_.socket().shutdown(TcpSocket::shutdown_send, ignored);
    finish();
  }

  void linger() {
    error_code ignored;
    stream_.socket().shutdown(TcpSocket::shutdown_send, ignored);
    stream_.expires_after(kDrainTime);
    drain();
  }

  void drain() {
    stream_.async_read_some(boost::asio::buffer(waste_), [self = shared_from_this()](error_code failure, std::size_t) {
      if (failure) return self->finish();
      self->drain();
    });
  }

  void finish() {
    stream_.close();
    core_->sessions.erase(id_);
  }

  std::shared_ptr<ServerCore> core_;
  Stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  std::array<char, 4096> waste_{};
  std::optional<PeerIdentity> peer_;
  std::shared_ptr<Credentials::Contexts> accepted_by_;  // its certificate
  HttpRequest request_;
  std::optional<Charge> body_;    // of it, until it is handled
  std::optional<Charge> answer_;  // until it is read
  std::uint64_t id_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();  // accepted, or the answer's
  bool answering_ = false;
  bool aborted_ = false;
  bool keep_alive_ = false;
  bool head_only_ = false;
  bool drain_ = false;
};

}  // namespace

void start_http_session(const std::shared_ptr<ServerCore>& core, TcpSocket socket, std::string address) {
  std::make_shared<BeastSession>(core, std::move(socket), std::move(address))->start();
}

}  // namespace trimtab::net
