"""Reading the workspace: conversations.*, users.*, usergroups.*; reactions, files."""

from typing import Any

from tests.fakes.slack.args import Args, invalid
from tests.fakes.slack.chat import refuse_bad_content
from tests.fakes.slack.workspace import (
    BOT_ID,
    BOT_USER,
    TEAM,
    Channel,
    Json,
    SlackError,
    User,
    Workspace,
)


def auth_test(world: Workspace, args: Args) -> Json:
    """auth.test."""
    del args
    return {
        "url": f"https://{world.team.lower()}.slack.test/",
        "team": world.team,
        "user": "interlock",
        "team_id": None if world.whole else world.team,
        "user_id": BOT_USER,
        "bot_id": BOT_ID,
        "is_enterprise_install": world.whole,
        **({"enterprise_id": world.enterprise} if world.enterprise else {}),
    }


def auth_teams(world: Workspace, args: Args) -> Json:
    """auth.teams.list: the workspaces that the token is good for."""
    teams = world.teams if world.whole else [world.team]
    return args.page([{"id": team, "name": team} for team in teams], "teams")


def open_conversation(world: Workspace, args: Args) -> Json:
    """conversations.open: a direct conversation with one person, or with several."""
    if args.has("channel"):
        return {"channel": {"id": world.visible_channel(args.text("channel")).id}}
    people = args.names("users")
    if not people:
        raise SlackError("users_list_not_supplied")
    for person in people:
        user = world.user(person)
        if user.deleted:
            raise SlackError("user_disabled")
        if user.bot:
            raise SlackError("cannot_dm_bot")
    if len(people) == 1:
        channel = world.direct_channel(people[0])
    else:
        channel = Channel(world.number("G"), "mpdm", "mpim", [*people, BOT_USER])
        world.channels[channel.id] = channel
    return {"channel": channel.info(BOT_USER) if args.flag("return_im") else {"id": channel.id}}


def info(world: Workspace, args: Args) -> Json:
    """conversations.info."""
    channel = world.visible_channel(args.need("channel", "channel_not_found"))
    world.need_scope(f"{channel.scope_prefix}:read")
    return {"channel": channel.info(BOT_USER)}


def _shown(message: Json, with_metadata: bool) -> Json:
    kept = {key: value for key, value in message.items() if key not in ("unfurls", "edits")}
    if "metadata" in kept and not with_metadata:
        kept["metadata"] = {"event_type": kept["metadata"]["event_type"]}
    return kept


def _between(messages: list[Json], args: Args) -> list[Json]:
    oldest, latest = args.text("oldest", "0"), args.text("latest") or "9" * 12
    inclusive = args.flag("inclusive")

    def within(ts: str) -> bool:
        at, low, high = float(ts), float(oldest), float(latest)
        return low <= at <= high if inclusive else low < at < high

    return [message for message in messages if within(message["ts"])]


def history(world: Workspace, args: Args) -> Json:
    """conversations.history: newest first, without the answers in threads."""
    channel = world.joined_channel(args.need("channel", "channel_not_found"))
    world.need_scope(f"{channel.scope_prefix}:history")
    shown = [m for m in channel.messages.values() if m.get("thread_ts", m["ts"]) == m["ts"]]
    rows = [_shown(m, args.flag("include_all_metadata")) for m in _between(shown, args)]
    page = args.page(rows[::-1], "messages", 999)
    return {**page, "has_more": bool(page["response_metadata"]["next_cursor"])}


def replies(world: Workspace, args: Args) -> Json:
    """conversations.replies: the root, then the answers, oldest first."""
    channel = world.joined_channel(args.need("channel", "channel_not_found"))
    world.need_scope(f"{channel.scope_prefix}:history")
    root = args.need("ts", "thread_not_found")
    if root not in channel.messages:
        raise SlackError("thread_not_found")
    answers = list(world.replies(channel, root))
    head = dict(channel.messages[root])
    if answers:
        head |= {"reply_count": len(answers), "latest_reply": answers[-1]["ts"]}
    thread = [head, *_between(answers, args)]
    rows = [_shown(message, args.flag("include_all_metadata")) for message in thread]
    page = args.page(rows, "messages")
    return {**page, "has_more": bool(page["response_metadata"]["next_cursor"])}


def members(world: Workspace, args: Args) -> Json:
    """conversations.members."""
    channel = world.visible_channel(args.need("channel", "channel_not_found"))
    world.need_scope(f"{channel.scope_prefix}:read")
    return args.page(list(channel.members), "members")


def list_conversations(world: Workspace, args: Args) -> Json:
    """conversations.list."""
    kinds = {"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}
    wanted = args.names("types") or ["public_channel"]
    if not set(wanted) <= set(kinds):
        raise SlackError("invalid_types")
    found = []
    for channel in world.channels.values():
        if channel.kind not in [kinds[name] for name in wanted]:
            continue
        hidden = channel.kind != "channel" and BOT_USER not in channel.members
        if not hidden and not (channel.archived and args.flag("exclude_archived")):
            world.need_scope(f"{channel.scope_prefix}:read")
            found.append(channel.info(BOT_USER))
    return args.page(found, "channels")


def join(world: Workspace, args: Args) -> Json:
    """conversations.join: public channels only."""
    channel = world.visible_channel(args.need("channel", "channel_not_found"))
    if channel.kind != "channel":
        raise SlackError("method_not_supported_for_channel_type")
    if channel.archived:
        raise SlackError("is_archived")
    if BOT_USER in channel.members:
        return {"channel": channel.info(BOT_USER), "warning": "already_in_channel"}
    channel.members.append(BOT_USER)
    return {"channel": channel.info(BOT_USER)}


def users_info(world: Workspace, args: Args) -> Json:
    """users.info."""
    return {"user": _user(world, world.user(args.need("user", "user_not_found")))}


def users_list(world: Workspace, args: Args) -> Json:
    """users.list."""
    return args.page([_user(world, user) for user in world.users.values()], "members")


def _user(world: Workspace, user: User) -> Json:
    """The user object, with the address only for a token that may read it."""
    found = user.profile()
    if user.email and "users:read.email" in world.scopes:
        found["profile"]["email"] = user.email
    return found


def usergroups_list(world: Workspace, args: Args) -> Json:
    """usergroups.list."""
    team = _team_of_groups(world, args)
    rows: list[Json] = []
    for group in world.usergroups.values():
        if group.team != team or (group.disabled and not args.flag("include_disabled")):
            continue
        row: Json = {"id": group.id, "team_id": team or TEAM, "is_usergroup": True}
        row |= {"name": group.handle, "handle": group.handle, "date_delete": int(group.disabled)}
        if args.flag("include_users"):
            row["users"] = list(group.users)
        rows.append(row)
    return {"usergroups": rows}


def usergroups_users(world: Workspace, args: Args) -> Json:
    """usergroups.users.list."""
    team = _team_of_groups(world, args)
    group = world.usergroups.get(args.need("usergroup"))
    if group is None or group.team != team:
        raise SlackError("no_such_subteam")
    if group.disabled and not args.flag("include_disabled"):
        raise SlackError("no_such_subteam")
    return {"users": list(group.users)}


def _team_of_groups(world: Workspace, args: Args) -> str:
    """The workspace whose groups are meant: to be named with the token of a whole Enterprise Grid,
    and ignored with that of a workspace (then empty here)."""
    if not world.whole:
        return ""
    team = args.need("team_id", "missing_argument")
    if team not in world.teams:
        raise SlackError("invalid_team")
    return team


def add_reaction(world: Workspace, args: Args) -> Json:
    """reactions.add."""
    channel = world.joined_channel(args.need("channel", "channel_not_found"))
    if args.need("timestamp", "no_item_specified") not in channel.messages:
        raise SlackError("message_not_found")
    reaction = (channel.id, args.text("timestamp"), args.need("name", "invalid_name"))
    if reaction in world.reactions:
        raise SlackError("already_reacted")
    world.reactions.add(reaction)
    return {}


def files_info(world: Workspace, args: Args) -> Json:
    """files.info."""
    file = world.files.get(args.need("file", "file_not_found"))
    if file is None or "url_private" not in file:
        raise SlackError("file_not_found")
    return {"file": {key: value for key, value in file.items() if key != "content"}}


def get_upload_url(world: Workspace, args: Args) -> Json:
    """files.getUploadURLExternal."""
    file_id = world.number("F")
    size = args.whole("length", 0)
    if size <= 0 or not args.has("filename"):
        raise invalid("missing required field: filename, length")
    world.files[file_id] = {"id": file_id, "name": args.text("filename"), "size": size}
    base = world.base_url.removesuffix("/api/")
    return {"upload_url": f"{base}/upload/{file_id}", "file_id": file_id}


def complete_upload(world: Workspace, args: Args) -> Json:
    """files.completeUploadExternal: shares what was uploaded, as a message of the bot."""
    files: Any = args.data("files")
    if not files:
        raise invalid("missing required field: files")
    shared = []
    for entry in files:
        known = world.files.get(entry.get("id"))
        if known is None or "content" not in known:
            raise SlackError("file_not_found")
        known["title"] = entry.get("title", known["name"])
        shared.append({key: known[key] for key in ("id", "name", "size", "title")})
    if args.has("channel_id"):
        channel = world.joined_channel(args.text("channel_id"))
        blocks = args.data("blocks")
        refuse_bad_content(args.text("initial_comment"), blocks, None)
        thread = {"thread_ts": args.text("thread_ts")} if args.has("thread_ts") else {}
        text = {"text": args.text("initial_comment"), "blocks": blocks}
        world.store_own(channel, {**text, "files": shared, "subtype": "file_share", **thread})
    return {"files": shared}
