#pragma once

// A port of loopback that answers requests over plain HTTP with one page after the other; without a page, one where
// nobody answers.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

class PageServer {
 public:
  explicit PageServer(std::vector<std::string> pages) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    socklen_t size = sizeof address;
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
    if (pages.empty()) return;
    REQUIRE(::listen(listener_, 4) == 0);
    thread_ = std::thread([this, pages = std::move(pages)] {
      for (const std::string& page : pages) answer(page);
    });
  }
  ~PageServer() {
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  std::uint16_t port = 0;

 private:
  void answer(const std::string& page) const {
    const int peer = ::accept(listener_, nullptr, nullptr);
    char request[4096];
    const std::string reply =
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(page.size()) + "\r\n\r\n" + page;
    const bool served = ::read(peer, request, sizeof request) > 0 && ::write(peer, reply.data(), reply.size()) > 0;
    ::close(peer);
    if (!served) ::abort();
  }

  int listener_;
  std::thread thread_;
};
