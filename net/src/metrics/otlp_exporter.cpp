#include "net/otlp_exporter.hpp"

#include <openssl/ssl.h>
#include <unistd.h>
#include <algorithm>
#include <boost/beast/http/field.hpp>

#include "base/check.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "context.hpp"
#include "http/exchange.hpp"
#include "metrics/otlp_document.hpp"
#include "metrics/otlp_reply.hpp"
#include "net/tokens.hpp"
#include "trust/certificate_text.hpp"
#include "trust/tls.hpp"
#include "trust/watched_file.hpp"

namespace trimtab::net {

namespace {

class ServerTrust final {
 public:
  // `authority` empty: the system's, as they are now.
  [[nodiscard]] static Result<ServerTrust> load(const std::string& authority);

  // Reads the file again where it has changed. After an error the old authorities stay in use.
  [[nodiscard]] Status renew();
  [[nodiscard]] TlsContext& context() { return *context_; }

 private:
  explicit ServerTrust(const std::string& authority) : file_(authority) {}
  [[nodiscard]] Status read();

  WatchedFile file_;
  std::unique_ptr<TlsContext> context_;
};

Result<ServerTrust> ServerTrust::load(const std::string& authority) {
  ServerTrust trust(authority);
  TRIMTAB_TRY_STATUS(trust.read());
  return trust;
}

Status ServerTrust::renew() {
  return file_.path().empty() || !file_.changed() ? Status() : read();
}

Status ServerTrust::read() {
  auto fresh = std::make_unique<TlsContext>(TlsContext::tls_client);
  SSL_CTX* context = fresh->native_handle();
  bool usable = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1;
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (file_.path().empty()) {
    usable = usable && SSL_CTX_set_default_verify_paths(context) == 1;
  } else {
    TRIMTAB_TRY(const std::string text, file_.read(WatchedFile::Kind::kGrants));
    TRIMTAB_TRY(const auto certificates, read_certificates(text, file_.path()));
    X509_STORE* trusted = SSL_CTX_get_cert_store(context);
    for (const auto& one : certificates) usable = usable && X509_STORE_add_cert(trusted, one.get()) == 1;
  }
  if (!usable) return bad_input("the authorities of servers cannot be used: " + openssl_error());
  context_ = std::move(fresh);
  return {};
}

}  // namespace

namespace http = boost::beast::http;

namespace {

constexpr Nanoseconds kLongestPost = std::chrono::seconds(10);
constexpr std::uint64_t kMaxReplyBytes = 64U << 10;

OtlpVerdict verdict_of(const HttpExchange::Outcome& outcome, Nanoseconds now) {
  if (const auto* failure = std::get_if<HttpExchange::Failure>(&outcome)) {
    switch (failure->kind) {
      case HttpExchange::Failure::Kind::kTimeout:
        return {OtlpResult::kTimeout, failure->message};
      case HttpExchange::Failure::Kind::kMalformed:
        return {OtlpResult::kMalformed, failure->message};
      default:
        return {OtlpResult::kUnreachable, failure->message};
    }
  }
  const auto& reply = std::get<HttpExchange::Reply>(outcome);
  const auto retry_after = reply[http::field::retry_after];
  return judge({static_cast<int>(reply.result_int()), {retry_after.data(), retry_after.size()}, reply.body()}, now);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

struct OtlpExporter::Implementation {
  Status open(std::uint64_t seed) {
    TRIMTAB_TRY_STATUS(check_otlp(settings));
    if (endpoint().tls) {
      TRIMTAB_TRY(auto loaded, ServerTrust::load(settings.authority));
      trust = std::move(loaded);
    }
    if (!settings.token_file.empty()) {
      if (const auto token = read_token(settings.token_file); !token.ok()) return token.error();
    }
    wait(Nanoseconds(Random(seed).between(0, settings.period.count())));
    return {};
  }

  [[nodiscard]] const OtlpEndpoint& endpoint() const { return *settings.endpoint; }

  void wait(Nanoseconds delay) {
    timer = loop.after(std::max(delay, Nanoseconds(0)), [this] { post(); });
  }

  void post() {
    began = clock.monotonic();
    // The operating system cannot be told to give up a name: no second look-up behind a first.
    if (!last.expired()) return ended({OtlpResult::kTimeout, "the name " + endpoint().host + " is still looked up"});
    auto request = make_request();
    if (!request.ok()) return ended({OtlpResult::kUnreachable, request.error().message});
    renew_trust();
    const Nanoseconds timeout = std::min(kLongestPost, settings.period);
    current = std::make_shared<HttpExchange>(
        loop.context().io, HttpExchange::Options{endpoint().host, endpoint().port, timeout, kMaxReplyBytes, secured()});
    last = current;
    current->start(std::move(request).value(), [this](const HttpExchange::Outcome& outcome) {
      current.reset();
      ended(verdict_of(outcome, clock.wall()));
    });
  }

  void renew_trust() {
    if (!trust) return;
    const Status renewed = trust->renew();
    if (!renewed.ok()) handlers.changed(false, "the collector's authority stays as it was: " + renewed.error().message);
  }

  [[nodiscard]] Result<HttpExchange::Request> make_request() const {
    HttpExchange::Request request(http::verb::post, endpoint().target, 11);
    if (!settings.token_file.empty()) {
      TRIMTAB_TRY(const std::string token, read_token(settings.token_file));
      request.set(http::field::authorization, "Bearer " + token);
    }
    request.set(http::field::user_agent, resource.service + "/" + resource.version);
    request.set(http::field::content_type, "application/json");
    request.keep_alive(false);
    request.body() = otlp_document(resource, handlers.page(), started, clock.wall());
    request.prepare_payload();
    return request;
  }

  [[nodiscard]] HttpExchange::Secure secured() {
    if (!trust) return {};
    return [this](Stream& stream, auto done) {
      secure_client(stream, trust->context(), endpoint().host, std::move(done));
    };
  }

  void ended(const OtlpVerdict& verdict) {
    ++counts[static_cast<std::size_t>(verdict.result)];
    const Nanoseconds took = clock.monotonic() - began;
    wait(std::max(settings.period - took, verdict.wait));
    if (std::exchange(state, verdict.result) == verdict.result) return;
    const bool well = verdict.result == OtlpResult::kOk;
    handlers.changed(well,
                     well ? well_text() : "metrics do not reach " + to_string(endpoint()) + ": " + verdict.reason);
  }

  [[nodiscard]] std::string well_text() const {
    return "metrics go to " + to_string(endpoint()) + " every " + format_duration(settings.period) +
           (endpoint().tls ? "" : ", not encrypted");
  }

  EventLoop& loop;
  const Clock& clock;
  OtlpSettings settings;
  OtlpResource resource;
  OtlpHandlers handlers;
  Nanoseconds started;  // wall clock
  std::optional<ServerTrust> trust = {};
  std::shared_ptr<HttpExchange> current = {};  // the post that is on its way
  std::weak_ptr<HttpExchange> last = {};       // not gone while something of the latest post is
  std::optional<OtlpResult> state = {};
  std::array<std::uint64_t, std::size(kOtlpResults)> counts = {};
  Nanoseconds began{0};
  EventLoop::Timer timer = {};
};

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::start(EventLoop& loop, const Clock& clock, OtlpSettings settings,
                                                          OtlpResource resource, OtlpHandlers handlers,
                                                          std::uint64_t seed) {
  TRIMTAB_ASSERT(settings.endpoint, "an exporter has somewhere to post to");
  if (resource.host.empty()) resource.host = host_name();
  std::unique_ptr<Implementation> implementation(
      new Implementation{loop, clock, std::move(settings), std::move(resource), std::move(handlers), clock.wall()});
  TRIMTAB_TRY_STATUS(implementation->open(seed));
  return std::unique_ptr<OtlpExporter>(new OtlpExporter(std::move(implementation)));
}

OtlpExporter::OtlpExporter(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

OtlpExporter::~OtlpExporter() {
  if (implementation_->current) implementation_->current->cancel();
}

void OtlpExporter::append(std::vector<Metric>& into) const {
  for (const OtlpResult result : kOtlpResults) {
    const auto count = static_cast<double>(implementation_->counts[static_cast<std::size_t>(result)]);
    into.push_back({"trimtab_otlp_exports_total", true, "Posts of metrics, by what became of them.", count,
                    labels({{"result", to_string(result)}})});
  }
}

}  // namespace trimtab::net
