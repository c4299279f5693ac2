"""
Text and files to `platform:chat_id`. The contract: ADAPTERS.md. A platform is a file of its name,
and its data one in facts/.

A platform
    base          what an adapter is, its values    errors        what went wrong, by what to do
    abilities     what it may be able to do beyond  codes         what a platform's codes can mean
    answers       reading what came back            bodies        writing what goes out
    ids           kinds of chat ids, by their shape urls          settings that are URLs or secrets
    facts/        ids, codes, limits of each        marks/        Markdown to a chat's own markup
    console       the platform `console`            chatlog       its files
    apprise_call  calls of Apprise                  weixin_tokens Hermes's, for Weixin
A delivery
    send          one delivery, its channel result  parts         its parts, ways and doubts
    markup        text without control characters   split         a text in parts
    splits        those, kept                       calls         what an adapter is asked, guarded
    errands       what is asked of a platform       aside         requests beside the message
    retry         how often, how long               tokens        access tokens, kept
    lookups       chats by another id, or moved     flights       asked once for all who need it
    tools         what a delivery works with        http          the transport for https
    files         `bus/files`, copies on their way
The courier
    courier       the service                       handler       one message in its hands
    progress      what is sent and begun            notebook      opening its file
    rows          what it reads and writes there    gate          whether it may go out now
    pace          published limits                  buckets       what each of them lets through
    circuit       platforms that are down           crowd         how many are under way at one
    turns         whose turn it is in a chat        shuts         who asked to wait, and until when
    passing       what a gate is to a delivery      waits         what went back to the broker
    spool         files in its hands                tally         what became of deliveries
    status        `bus/courier.json`
Settings, and what people see
    channel       the channel token                 home          where a bare platform leads
    settings      the environment and .env          dotenv        how `.env` is read
    kept          what could be read last           hermes_config Hermes's config.yaml
    registry      adapters, by entry point          mask          requests and reasons, no secrets
    preview       what would be sent                listing       what is set up
    check         whether a credential is taken
"""
