#include "cut_connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace trimtab::test {

namespace {

// The statement's text in the message that prepares it.
constexpr std::string_view kCommit("COMMIT\0", 7);

sockaddr_un address_in(const std::string& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory + "/.s.PGSQL.5432";
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

int connect_to(const std::string& directory) {
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_in(directory);
  if (connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(file);
    return -1;
  }
  return file;
}

std::string receive(int file) {
  std::array<char, 65536> buffer{};
  const ssize_t count = recv(file, buffer.data(), buffer.size(), 0);
  return std::string(buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
}

bool send_all(int file, std::string_view bytes) {
  return send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

CutConnection::CutConnection(std::string server, Cut cut) : server_(std::move(server)), cut_(cut) {
  directory_ = "/tmp/trimtab-cut-XXXXXX";
  if (mkdtemp(directory_.data()) == nullptr) throw std::runtime_error("cannot create " + directory_);
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_in(directory_);
  const bool bound = bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (!bound || listen(listener_, 8) != 0) throw std::runtime_error("cannot listen in " + directory_);
  thread_ = std::thread([this] { serve(); });
}

CutConnection::~CutConnection() {
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
  std::filesystem::remove_all(directory_);
}

void CutConnection::serve() {
  for (;;) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) break;
    pass(client);
    close(client);
  }
  if (held_ >= 0) close(held_);
}

void CutConnection::pass(int client) {
  const int server = connect_to(server_);
  if (server < 0) return;
  for (;;) {
    std::array<pollfd, 3> files{{{client, POLLIN, 0}, {server, POLLIN, 0}, {listener_, POLLHUP, 0}}};
    if (poll(files.data(), files.size(), -1) < 0) break;
    if ((files[2].revents & POLLHUP) != 0) break;
    if (files[0].revents != 0 && !pass_to_server(client, server)) break;
    if (files[1].revents != 0 && !pass_to_client(server, client)) break;
  }
  if (held_ != server) close(server);
}

bool CutConnection::pass_to_server(int client, int server) {
  const std::string bytes = receive(client);
  if (bytes.empty()) return false;
  if (held_ >= 0 && bytes.find("pg_sleep") != std::string::npos) {
    close(held_);
    held_ = -1;
  }
  const bool now = cuts_ == 0 && bytes.find(kCommit) != std::string::npos;
  if (!now) return send_all(server, bytes);
  ++cuts_;
  if (cut_ == Cut::kUnseen) held_ = server;
  asked_ = cut_ == Cut::kAfter;
  return asked_ && send_all(server, bytes);
}

bool CutConnection::pass_to_client(int server, int client) {
  const std::string bytes = receive(server);
  if (bytes.empty() || asked_) {
    asked_ = false;
    return false;
  }
  return send_all(client, bytes);
}

}  // namespace trimtab::test
