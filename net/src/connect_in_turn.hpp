#pragma once

// A host's addresses, one after the other, each with a time of its own: one that swallows what is sent to it does not
// keep us from the next.

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "stream.hpp"

namespace trimtab::net {

using Addresses = std::vector<boost::asio::ip::tcp::endpoint>;

[[nodiscard]] inline std::shared_ptr<const Addresses> addresses_of(
    const boost::asio::ip::tcp::resolver::results_type& found) {
  return std::make_shared<const Addresses>(found.begin(), found.end());
}

// `done(failure, address)` gets what became of the last address that was tried: no failure when `stream` is connected.
// Closing the stream ends it with operation_aborted. The stream must live until then, and keeps the last address' time
// limit. REQUIRES: there are addresses.
template <typename Done>
void connect_in_turn(Stream& stream, std::shared_ptr<const Addresses> addresses, Nanoseconds each, Done done,
                     std::size_t place = 0) {
  const auto& address = addresses->at(place);
  stream.expires_after(each);
  auto connected = [&stream, addresses, each, done = std::move(done),
                    place](boost::system::error_code failure) mutable {
    const bool over = !failure || failure == boost::asio::error::operation_aborted || place + 1 == addresses->size();
    if (over) return done(failure, addresses->at(place));
    stream.close();
    connect_in_turn(stream, std::move(addresses), each, std::move(done), place + 1);
  };
  stream.connect(address, shared_handler<boost::system::error_code>(std::move(connected)));
}

}  // namespace trimtab::net
