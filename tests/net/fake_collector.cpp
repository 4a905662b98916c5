#include "fake_collector.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>

namespace trimtab::net {

namespace {

int listen_on_loopback(std::uint16_t& port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = static_cast<sockaddr*>(static_cast<void*>(&address));
  socklen_t size = sizeof address;
  REQUIRE(::bind(descriptor, generic, size) == 0);
  REQUIRE(::listen(descriptor, 16) == 0);
  REQUIRE(::getsockname(descriptor, generic, &size) == 0);
  port = ntohs(address.sin_port);
  return descriptor;
}

// One connection, plain or under TLS.
class Conversation {
 public:
  Conversation(int descriptor, SSL_CTX* context) : descriptor_(descriptor) {
    if (context == nullptr) return;
    tls_.reset(SSL_new(context));
    SSL_set_fd(tls_.get(), descriptor);
    begun_ = SSL_accept(tls_.get()) == 1;
  }

  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] std::string read() const {
    std::array<char, 16384> bytes{};
    const ssize_t count = tls_ ? SSL_read(tls_.get(), bytes.data(), static_cast<int>(bytes.size()))
                               : ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    return {bytes.data(), static_cast<std::size_t>(count < 0 ? 0 : count)};
  }
  [[nodiscard]] bool write(const std::string& text) const {
    const ssize_t count = tls_ ? SSL_write(tls_.get(), text.data(), static_cast<int>(text.size()))
                               : ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
    return count == static_cast<ssize_t>(text.size());
  }

  // Empty when the other side goes before it has said all.
  [[nodiscard]] std::string read_request() const {
    std::string all;
    while (true) {
      const auto head = all.find("\r\n\r\n");
      const auto length = all.find("Content-Length: ");
      if (head != std::string::npos && length != std::string::npos &&
          all.size() >= head + 4 + std::strtoul(all.c_str() + length + 16, nullptr, 10)) {
        return all;
      }
      const std::string more = read();
      if (more.empty()) return "";
      all += more;
    }
  }

 private:
  struct Deleter {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  int descriptor_;
  std::unique_ptr<SSL, Deleter> tls_;
  bool begun_ = true;
};

}  // namespace

FakeCollector::FakeCollector(CollectorManner manner, const CredentialFiles& tls) : manner_(std::move(manner)) {
  if (!tls.empty()) {
    tls_.reset(SSL_CTX_new(TLS_server_method()));
    REQUIRE(SSL_CTX_use_certificate_chain_file(tls_.get(), tls.certificate.c_str()) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey_file(tls_.get(), tls.key.c_str(), SSL_FILETYPE_PEM) == 1);
  }
  listener_ = listen_on_loopback(port_);
  thread_ = std::thread([this] { serve(); });
}

FakeCollector::~FakeCollector() {
  ::shutdown(listener_, SHUT_RDWR);
  if (const int open = open_; open >= 0) ::shutdown(open, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

void FakeCollector::behave(CollectorManner manner) {
  const std::lock_guard lock(mutex_);
  manner_ = std::move(manner);
}

std::vector<std::string> FakeCollector::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeCollector::serve() {
  // OpenSSL writes to a connection that may have gone.
  sigset_t broken_pipe;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  while (true) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) return;
    ++connections_;
    open_ = descriptor;
    serve_one(descriptor);
    open_ = -1;
    ::close(descriptor);
  }
}

void FakeCollector::serve_one(int descriptor) {
  const Conversation with(descriptor, tls_.get());
  const std::string request = with.begun() ? with.read_request() : "";
  if (request.empty()) return;
  CollectorManner manner;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    manner = manner_;
  }
  if (manner.silent) {
    if (with.read().empty()) ++given_up_;
    return;
  }
  if (!with.write(manner.reply) || !manner.endless) return;
  const std::string more(4096, 'x');
  while (with.write(more)) {
  }
  ++given_up_;
}

std::uint16_t unused_port() {
  std::uint16_t port = 0;
  ::close(listen_on_loopback(port));
  return port;
}

}  // namespace trimtab::net
