// The bodies of Asio and Beast, compiled once (BOOST_ASIO_SEPARATE_COMPILATION): each other source then compiles
// faster.

#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
