#pragma once

// A client of a daemon whose loop the test's thread turns meanwhile.

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/result.hpp"
#include "fake_agent.hpp"
#include "net/http_client.hpp"

namespace trimtab::coordinator {

// A client that is not through in time fails the test.
inline Result<net::HttpReply> reply_of(net::EventLoop& loop, const net::HttpEndpoint& daemon, const std::string& method,
                                       const std::string& target, const std::string& body) {
  Result<net::HttpReply> reply = unavailable("not asked yet");
  bool done = false;
  std::thread client([&] {
    auto result = net::http_request(daemon, method, target, body, std::chrono::seconds(10));
    loop.post([&, result = std::move(result)] {
      reply = result;
      done = true;
    });
  });
  const bool answered = coordinator::run_until(loop, [&] { return done; });
  client.join();
  REQUIRE(answered);
  return reply;
}

}  // namespace trimtab::coordinator
